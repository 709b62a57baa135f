//! The tables, made and migrated by the first node that needs them.
//!
//! Each step is a script that leaves its number in `meta`. A script runs in one transaction, under a lock of its own,
//! and looks at the number again behind the lock: of several nodes that start together one makes the step, and the
//! others find it made.

use std::fmt::Write as _;

/// The steps so far; tables of a later one are refused.
pub(crate) const VERSION: usize = STEPS.len();

const STEPS: [&str; 1] = [
    // A version is the place in PostgreSQL's log at which a row was last changed, 0 before that. The unique index on
    // the version of an owner record makes it a key: a taking then conflicts with the lock that chunks and sweeps
    // hold on the row (FOR KEY SHARE), and an append does not.
    "CREATE TABLE node (
         id uuid PRIMARY KEY,
         created bigint NOT NULL,
         version bigint NOT NULL,
         beat bigint NOT NULL,
         record bytea NOT NULL,
         buried boolean NOT NULL DEFAULT false,
         drained boolean NOT NULL DEFAULT false
     ) WITH (fillfactor = 50);
     CREATE TABLE stream (
         partition integer PRIMARY KEY,
         version bigint NOT NULL DEFAULT 0,
         epoch bigint NOT NULL DEFAULT 0,
         node uuid,
         at bigint NOT NULL DEFAULT 0,
         head bigint NOT NULL DEFAULT 0,
         first bigint NOT NULL DEFAULT 0,
         sum bigint NOT NULL DEFAULT 0,
         upto bigint,
         upto_epoch bigint,
         chunks integer,
         UNIQUE (partition, version)
     ) WITH (fillfactor = 50);
     CREATE TABLE batch (
         partition integer NOT NULL,
         last bigint NOT NULL,
         first bigint NOT NULL,
         record bytea NOT NULL,
         PRIMARY KEY (partition, last)
     ) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
     ALTER TABLE batch ALTER COLUMN record SET STORAGE EXTERNAL;
     CREATE TABLE chunk (
         partition integer NOT NULL,
         upto bigint NOT NULL,
         epoch bigint NOT NULL,
         number integer NOT NULL,
         record bytea NOT NULL,
         PRIMARY KEY (partition, upto, epoch, number)
     ) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
     ALTER TABLE chunk ALTER COLUMN record SET STORAGE EXTERNAL;",
];

/// How far the tables are: 0 when there are none. `others` counts what else is in the schema.
pub(crate) const LOOK: &str = "SELECT to_regclass($1 || '.meta') IS NOT NULL, \
     (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1), \
     EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";

/// The number that the last step left. Asked only where `meta` is there.
pub(crate) const STEP: &str = "SELECT step FROM meta";

/// The script that makes the steps after `step`. The schema is made only where it is missing: a user that may not make
/// one can be given one.
pub(crate) fn script(schema: &str, has_schema: bool, step: usize) -> String {
    let mut script = format!("SELECT pg_advisory_xact_lock(hashtext('leasehold.{schema}'));");
    if !has_schema {
        script.extend(["CREATE SCHEMA IF NOT EXISTS ", schema, ";"]);
    }
    script += "CREATE TABLE IF NOT EXISTS meta (
         id boolean PRIMARY KEY DEFAULT true CHECK (id),
         step integer NOT NULL,
         facts bytea,
         system text,
         timeline bigint
     );
     INSERT INTO meta (step) VALUES (0) ON CONFLICT DO NOTHING;";
    for (number, statements) in (1..).zip(STEPS).skip(step) {
        let before = number - 1;
        let _ = write!(
            script,
            "DO $step$ BEGIN IF (SELECT step FROM meta) = {before} THEN {statements} UPDATE meta SET step = {number}; \
             END IF; END $step$;"
        );
    }
    script
}

/// Asks whether the table for the keys of proofs exists. Adding it is no step of the schema: builds that do not know
/// the table go on beside it.
pub(crate) const HAS_KEYRING: &str = "SELECT to_regclass($1 || '.keyring') IS NOT NULL";

/// The script that makes it, with no keys in it.
pub(crate) fn keyring_script(schema: &str) -> String {
    format!(
        "SELECT pg_advisory_xact_lock(hashtext('leasehold.{schema}'));
         CREATE TABLE IF NOT EXISTS keyring (id boolean PRIMARY KEY DEFAULT true CHECK (id), record bytea);
         INSERT INTO keyring (record) VALUES (NULL) ON CONFLICT DO NOTHING;"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_makes_the_steps_that_are_missing_and_no_others() {
        let all = script("s", false, 0);
        assert!(
            all.starts_with("SELECT pg_advisory_xact_lock(hashtext('leasehold.s'));CREATE SCHEMA IF NOT EXISTS s;")
        );
        assert_eq!(all.matches("DO $step$").count(), VERSION);
        let none = script("s", true, VERSION);
        assert_eq!(none.matches("DO $step$").count(), 0);
        assert!(!none.contains("CREATE SCHEMA"));
    }
}

//! The statements. Each is a transaction of its own, in one round trip: a node that is stopped in the middle of one
//! holds no lock that its successor would wait for.
//!
//! Under *read committed* an update that waited for another one looks at the row again, and changes nothing if its
//! compares do not hold any more. A statement that only looks is different: it shows what is committed in this server,
//! which may not have reached the standby (its wait was cancelled, or the server was restarted). So each look that
//! decides something is *sealed*: it writes a message into the log as well, and is answered only when that is
//! replicated, and with it everything before it.

/// The place in the log, as a version.
macro_rules! lsn {
    () => {
        "(pg_current_wal_insert_lsn() - '0/0')::bigint"
    };
}

/// Begins a sealed look. It does not depend on rows that are there.
macro_rules! sealed {
    () => {
        "WITH seal AS MATERIALIZED (SELECT pg_logical_emit_message(true, 'leasehold', '')) "
    };
}

/// The seal alone.
pub(crate) const SEAL: &str = concat!(sealed!(), "SELECT count(*) FROM seal");

// The facts of the cluster.

pub(crate) const FACTS: &str = "SELECT facts, system, timeline FROM meta";

/// $1 facts, $2 partitions, $3 system, $4 timeline.
pub(crate) const BIRTH: &str = "WITH born AS (UPDATE meta SET facts = $1, system = $3, timeline = $4 \
     WHERE facts IS NULL RETURNING id) \
     INSERT INTO stream (partition) SELECT generate_series(0, $2 - 1) FROM born";

/// The same, sealed.
pub(crate) const FACTS_NOW: &str = concat!(sealed!(), "SELECT m.facts FROM seal LEFT JOIN meta m ON true");

/// $1 facts as they were seen, $2 new facts.
pub(crate) const RESTATE: &str = "UPDATE meta SET facts = $2 WHERE facts = $1 RETURNING id";

/// $1 facts as they were seen. Removes everything but the tables.
pub(crate) const CLEAR: &str = "WITH gone AS (UPDATE meta SET facts = NULL, system = NULL, timeline = NULL \
     WHERE facts = $1 RETURNING id), \
     nodes AS (DELETE FROM node WHERE EXISTS (SELECT FROM gone)), \
     batches AS (DELETE FROM batch WHERE EXISTS (SELECT FROM gone)), \
     chunks AS (DELETE FROM chunk WHERE EXISTS (SELECT FROM gone)), \
     streams AS (DELETE FROM stream WHERE EXISTS (SELECT FROM gone)) \
     SELECT id FROM gone";

// Nodes.

/// $1 node, $2 beat, $3 record, $4 facts: those that were looked at are the facts until the node is there.
pub(crate) const JOIN: &str = concat!(
    "INSERT INTO node (id, created, version, beat, record) SELECT $1, l.at, l.at, $2, $3 FROM (SELECT ",
    lsn!(),
    " AS at) l, (SELECT id FROM meta WHERE facts = $4 FOR SHARE) m ON CONFLICT (id) DO NOTHING RETURNING created"
);

/// $1 node.
pub(crate) const NODE: &str = concat!(
    sealed!(),
    "SELECT n.created, n.version, n.beat, n.record, n.buried, \
     (SELECT count(*) FROM stream s WHERE s.node = $1) FROM seal LEFT JOIN node n ON n.id = $1"
);

/// $1 node, $2 created, $3 beat, $4 record. An older beat, which was delayed, changes nothing.
pub(crate) const BEAT: &str = concat!(
    "UPDATE node SET beat = $3, record = $4, version = ",
    lsn!(),
    " WHERE id = $1 AND created = $2 AND NOT buried AND beat < $3 RETURNING id"
);

/// $1 node, $2 version, $3 record.
pub(crate) const BURY: &str = concat!(
    "UPDATE node SET buried = true, version = ",
    lsn!(),
    " WHERE id = $1 AND version = $2 AND record = $3 AND NOT buried RETURNING id"
);

/// $1 node, $2 version.
pub(crate) const FORGET: &str = "DELETE FROM node WHERE id = $1 AND version = $2 AND buried \
     AND NOT EXISTS (SELECT FROM stream s WHERE s.node = $1) RETURNING id";

/// $1 node, $2 drained.
pub(crate) const DRAIN: &str = "UPDATE node SET drained = $2 WHERE id = $1 RETURNING id";

/// The keys of proofs.
pub(crate) const KEYRING: &str = "SELECT record FROM keyring";

/// $1 the keys as they were, $2 as they are to be; those that are so already count, too.
pub(crate) const REPLACE_KEYRING: &str = "UPDATE keyring SET record = $2 \
     WHERE record IS NOT DISTINCT FROM $1 OR record = $2 RETURNING id";

/// Everything about ownership, in one snapshot: the facts, then nodes by id, then owners by partition.
pub(crate) const MAP: &str = concat!(
    "SELECT 0 AS kind, 0 AS partition, ",
    lsn!(),
    " AS version, facts AS record, NULL::uuid AS node, \
     current_setting('synchronous_standby_names') <> '' AS yes, false AS drained, 0::bigint AS epoch, 0::bigint AS at \
     FROM meta \
     UNION ALL SELECT 1, 0, version, record, id, buried, drained, 0, 0 FROM node \
     UNION ALL SELECT 2, partition, version, NULL, node, false, false, epoch, at FROM stream \
     ORDER BY kind, node, partition"
);

/// It differs whenever the map does.
pub(crate) const CHANGES: &str = "SELECT (SELECT coalesce(max(version), 0) FROM node), (SELECT count(*) FROM node), \
     (SELECT count(*) FROM node WHERE drained), (SELECT coalesce(max(version), 0) FROM stream)";

// Owners.

/// $1 partition, $2 version, $3 epoch, $4 node that owned it, $5 its service time, $6 taker, $7 new service time, $8
/// version of the buried record of $4, or NULL when that is gone, $9 new epoch.
pub(crate) const TAKE: &str = concat!(
    "UPDATE stream SET epoch = $9, node = $6, at = $7, version = ",
    lsn!(),
    " WHERE partition = $1 AND version = $2 AND epoch = $3 AND node IS NOT DISTINCT FROM $4 AND at = $5 \
     AND ($4::uuid IS NULL OR CASE WHEN $8::bigint IS NULL THEN NOT EXISTS (SELECT FROM node n WHERE n.id = $4) \
     ELSE EXISTS (SELECT FROM node n WHERE n.id = $4 AND n.version = $8 AND n.buried) END) RETURNING version"
);

/// $1 partition, $2 version, $3 epoch, $4 service time.
pub(crate) const LET_GO: &str = concat!(
    "UPDATE stream SET epoch = epoch + 1, node = NULL, at = greatest(at, $4), version = ",
    lsn!(),
    " WHERE partition = $1 AND version = $2 AND epoch = $3 RETURNING version"
);

/// $1 partition.
pub(crate) const OWNER: &str =
    concat!(sealed!(), "SELECT s.version, s.epoch, s.node, s.at FROM seal LEFT JOIN stream s ON s.partition = $1");

// Batches.

/// Arrays: $1 partition, $2 version, $3 epoch, $4 first and $5 sum of the batch before, $6 first, $7 last, $8 sum, $9
/// record. Returns the partitions whose batch is in; the compares of one do not concern the others.
pub(crate) const APPEND: &str = "WITH moved AS (UPDATE stream s SET head = b.last, first = b.first, sum = b.sum \
     FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bytea[]) b(p, version, epoch, before, before_sum, first, last, sum, record) \
     WHERE s.partition = b.p AND s.version = b.version AND s.epoch = b.epoch AND s.head = b.first - 1 \
     AND s.first = b.before AND s.sum = b.before_sum RETURNING b.p, b.last, b.first, b.record) \
     INSERT INTO batch (partition, last, first, record) SELECT p, last, first, record FROM moved RETURNING partition";

/// Arrays: $1 partition, $2 last, $3 record. Returns of each partition: the version of its
/// owner's record, whether the batch is there, the end of the stream and the batch there, and the oldest batch.
pub(crate) const QUESTIONS: &str = concat!(
    sealed!(),
    "SELECT a.p, s.version, coalesce(b.record = a.record, false), s.head, s.first, s.sum, \
     (SELECT o.first FROM batch o WHERE o.partition = a.p ORDER BY o.last LIMIT 1) \
     FROM seal CROSS JOIN unnest($1::int[], $2::bigint[], $3::bytea[]) a(p, last, record) \
     JOIN stream s ON s.partition = a.p LEFT JOIN batch b ON b.partition = a.p AND b.last = a.last"
);

/// The columns of a stream at the front of every page.
macro_rules! stream {
    () => {
        "SELECT s.version, s.epoch, s.node, s.at, s.head, s.upto, s.upto_epoch, s.chunks, \
         current_setting('synchronous_standby_names') <> '', "
    };
}

/// $1 partition, $2 position, $3 batches at most, $4 bytes after which no further batch begins.
pub(crate) const PAGE: &str = concat!(
    stream!(),
    "b.first, b.last, b.record FROM stream s LEFT JOIN LATERAL (SELECT y.first, y.last, y.record FROM (SELECT x.first, \
     x.last, x.record, sum(octet_length(x.record)) OVER (ORDER BY x.last) - octet_length(x.record) AS before FROM \
     (SELECT first, last, record FROM batch WHERE partition = $1 AND last > $2 ORDER BY last LIMIT $3) x) y \
     WHERE y.before < $4) b ON true WHERE s.partition = $1 ORDER BY b.last"
);

/// $1 partition, $2 upto, $3 epoch, $4 number, $5 chunks at most.
pub(crate) const CHUNKS: &str = concat!(
    stream!(),
    "c.number, c.record FROM stream s LEFT JOIN LATERAL (SELECT number, record FROM chunk WHERE partition = $1 \
     AND upto = $2 AND epoch = $3 AND number >= $4 ORDER BY number LIMIT $5) c ON true \
     WHERE s.partition = $1 ORDER BY c.number"
);

// Checkpoints.

/// $1 partition, $2 version, $3 upto, $4 epoch, $5 number, $6 record.
pub(crate) const PUT_CHUNK: &str = "INSERT INTO chunk (partition, upto, epoch, number, record) \
     SELECT $1, $3, $4, $5, $6 FROM (SELECT FROM stream WHERE partition = $1 AND version = $2 FOR KEY SHARE) mine \
     ON CONFLICT (partition, upto, epoch, number) DO UPDATE SET record = EXCLUDED.record RETURNING number";

/// $1 partition, $2 version, $3 upto, $4 epoch, $5 chunks.
pub(crate) const FINISH: &str = "UPDATE stream s SET upto = $3, upto_epoch = $4, chunks = $5 \
     WHERE s.partition = $1 AND s.version = $2 AND s.head >= $3 AND (s.upto IS NULL OR s.upto < $3) \
     AND (SELECT count(*) FROM chunk c WHERE c.partition = $1 AND c.upto = $3 AND c.epoch = $4 AND c.number < $5) = $5 \
     RETURNING s.partition";

/// $1 partition, $2 version, $3 upto, $4 epoch, $5 chunks, $6 first, $7 last, $8 sum, $9 record.
pub(crate) const BEGIN_STREAM: &str = "WITH begun AS (UPDATE stream s SET head = $7, first = $6, sum = $8, upto = $3, \
     upto_epoch = $4, chunks = $5 WHERE s.partition = $1 AND s.version = $2 AND s.head = 0 AND s.upto IS NULL \
     AND (SELECT count(*) FROM chunk c WHERE c.partition = $1 AND c.upto = $3 AND c.epoch = $4 AND c.number < $5) = $5 \
     RETURNING s.partition) \
     INSERT INTO batch (partition, last, first, record) SELECT partition, $7, $6, $9 FROM begun RETURNING partition";

/// $1 partition, $2 upto, $3 epoch, $4 chunks. Why a checkpoint could not be finished.
pub(crate) const UNFINISHED: &str = concat!(
    sealed!(),
    "SELECT s.version, s.head, s.upto, (SELECT count(*) FROM chunk c WHERE c.partition = $1 AND c.upto = $2 \
     AND c.epoch = $3 AND c.number < $4) FROM seal LEFT JOIN stream s ON s.partition = $1"
);

/// $1 partition, $2 version, $3 batches at most. Returns whether the partition is ours, the batches and the chunks
/// removed, and whether more are left.
pub(crate) const SWEEP: &str = "WITH mine AS MATERIALIZED (SELECT upto, upto_epoch, head FROM stream \
     WHERE partition = $1 AND version = $2 FOR KEY SHARE), \
     old AS MATERIALIZED (SELECT b.last FROM mine CROSS JOIN batch b WHERE b.partition = $1 AND b.last <= mine.upto \
     AND b.last < mine.head ORDER BY b.last LIMIT $3::bigint + 1), \
     doomed AS MATERIALIZED (SELECT last FROM old ORDER BY last LIMIT $3::bigint), \
     batches AS (DELETE FROM batch b USING doomed WHERE b.partition = $1 AND b.last = doomed.last RETURNING b.last), \
     chunks AS (DELETE FROM chunk c USING mine WHERE c.partition = $1 \
     AND (c.upto < mine.upto OR c.upto = mine.upto AND c.epoch < mine.upto_epoch) RETURNING c.number) \
     SELECT (SELECT count(*) FROM mine), (SELECT count(*) FROM batches), (SELECT count(*) FROM chunks), \
     (SELECT count(*) FROM old) > $3::bigint";

// PostgresUpkeep.

/// The bytes of our tables.
pub(crate) const SIZE: &str = "SELECT (pg_total_relation_size('batch') + pg_total_relation_size('chunk') + \
     pg_total_relation_size('stream') + pg_total_relation_size('node'))::bigint";

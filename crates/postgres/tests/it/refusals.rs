//! A server, a schema or a setting that cannot be right: each is refused with a sentence, and nothing is written.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use leasehold_cluster::{Birth, Landing, NodeRecord, Partitions, SharedError, SharedStore};
use leasehold_journal::Room;
use leasehold_postgres::{Address, PostgresStore};
use leasehold_testbed::{Postgres, PostgresOptions, free_port};

use super::common::{Chain, address, birth, joined, node, persist, read_all, runtime, take};

async fn refused(address: &Address, birth: Birth) -> String {
    match PostgresStore::new(address).unwrap().join(node(1), birth).await {
        Err(SharedError::Refused(sentence)) => sentence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_schemas_and_facts() {
    let postgres = Postgres::one();
    let change = |address: &Address, change: &str| {
        postgres.sql(0, &format!("UPDATE {}.meta SET {change}", address.schema));
    };
    runtime().block_on(async {
        let foreign = address(&postgres.hosts(), "");
        postgres.sql(0, &format!("CREATE SCHEMA {0}; CREATE TABLE {0}.invoices (id int)", foreign.schema));
        let sentence = refused(&foreign, birth()).await;
        assert!(sentence.contains("choose another schema"), "{sentence}");
        let tables = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'", foreign.schema);
        assert_eq!(postgres.sql(0, &tables), "1", "nothing was made");

        let sound = address(&postgres.hosts(), "");
        let empty = PostgresStore::new(&sound).unwrap().map().await.unwrap_err().to_string();
        assert!(empty.contains("there is no cluster"), "{empty}");
        joined(&sound, 9).await;
        let sentence = refused(&sound, Birth { partitions: Partitions::new(16), ..birth() }).await;
        assert!(sentence.contains("has 8 partitions for ever, and 16 were asked for"), "{sentence}");
        let sentence = refused(&sound, Birth { format: 0, ..birth() }).await;
        assert!(sentence.contains("uses format 1, this build understands formats up to 0"), "{sentence}");

        for (wrong, right, words) in [
            ("step = 99", "step = 1", "are of step 99, this build knows steps up to 1"),
            ("facts = 'LHM?'", "", "not the facts of a cluster that this build understands"),
        ] {
            let other = address(&postgres.hosts(), "");
            joined(&other, 9).await;
            change(&other, wrong);
            let sentence = refused(&other, birth()).await;
            assert!(sentence.contains(words), "{sentence}");
            if !right.is_empty() {
                change(&other, right);
                joined(&other, 1).await;
            }
        }
        // Tables that came from another server, as a dump does.
        change(&sound, "system = '7'");
        let sentence = refused(&sound, birth()).await;
        assert!(sentence.contains("made in another PostgreSQL (system identifier 7"), "{sentence}");
    });
}

/// Of nodes that start at the same time, one makes the tables.
#[test]
fn many_first_joins_at_once() {
    let postgres = Postgres::one();
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let joins = (1..=8).map(|number| {
            let address = address.clone();
            tokio::spawn(async move { joined(&address, number).await.map().await.unwrap().meta.secret })
        });
        for join in joins.collect::<Vec<_>>() {
            assert_eq!(join.await.unwrap(), [7; 32]);
        }
    });
}

#[test]
fn users_databases_and_permissions() {
    let postgres = Postgres::one();
    postgres.sql(0, "CREATE ROLE poor LOGIN; CREATE ROLE lodger LOGIN; CREATE SCHEMA room AUTHORIZATION lodger");
    let hosts = postgres.hosts();
    let parse = |text: String| text.parse::<Address>().unwrap();
    runtime().block_on(async {
        for (address, words) in [
            (parse(format!("postgres://absent@{hosts}/postgres")), "role \"absent\" does not exist"),
            (parse(format!("postgres://poor@{hosts}/absent")), "database \"absent\" does not exist"),
            (parse(format!("postgres://poor@{hosts}/postgres")), "give the user CREATE on the database"),
            (parse(format!("postgres://poor@{hosts}/postgres?schema=room")), "a permission is missing"),
        ] {
            let sentence = refused(&address, birth()).await;
            assert!(sentence.contains(words), "{sentence}");
        }
        // A user that owns a schema needs nothing else.
        let store = joined(&parse(format!("postgres://lodger@{hosts}/postgres?schema=room")), 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
        store.confirm().await.unwrap();
        assert_eq!(read_all(&store, 0).await, stream.records);
        // A permission that is taken away later is told as such.
        postgres
            .sql(0, "REVOKE ALL ON ALL TABLES IN SCHEMA room FROM lodger; ALTER TABLE room.batch OWNER TO postgres");
        let error = store.append(vec![stream.next(1)]).await.unwrap_err().to_string();
        assert!(error.contains("a permission is missing"), "{error}");
    });
}

#[test]
fn settings_that_cost_durability_are_said() {
    let settings = ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "statement_timeout=1ms"];
    let settings = settings.map(str::to_owned).to_vec();
    let postgres = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() });
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let warnings = store.warnings();
        for words in ["fsync of", "full_page_writes of", "synchronous_commit of"] {
            assert!(warnings.iter().any(|warning| warning.contains(words)), "{words}: {warnings:?}");
        }
        let mut stream = Chain::new(take(&store, 0, 1).await);
        assert_eq!(persist(&store, &stream.next(3)).await, Landing::Durable);
    });
}

#[test]
fn a_pooler_is_refused() {
    let postgres = Postgres::one();
    for settings in ["pool_mode = transaction", "pool_mode = transaction\nignore_startup_parameters = options"] {
        let pooler = postgres.pooler(settings);
        let sentence = runtime().block_on(refused(&address(&pooler.addr.to_string(), ""), birth()));
        assert!(sentence.contains("a pooler stands before PostgreSQL"), "{settings}: {sentence}");
    }
}

/// A stand-in for releases that cannot be installed any more: it lets any user in, and tells its version.
fn old_postgres(version: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let parameter = format!("server_version\0{version}\0");
            let mut reply = b"R\0\0\0\x08\0\0\0\0S".to_vec();
            reply.extend_from_slice(&u32::try_from(parameter.len() + 4).unwrap().to_be_bytes());
            reply.extend_from_slice(parameter.as_bytes());
            reply.extend_from_slice(b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I");
            let _ = stream.write_all(&reply);
            // Until the other side leaves.
            let _ = stream.read(&mut request);
        }
    });
    addr
}

#[test]
fn a_server_that_is_too_old() {
    runtime().block_on(async {
        for (version, words) in [("13.22", "is PostgreSQL 13.22; use 14 or later"), ("", "has no version")] {
            let sentence = refused(&address(&old_postgres(version).to_string(), ""), birth()).await;
            assert!(sentence.contains(words), "{sentence}");
        }
    });
}

#[test]
fn an_address_that_leads_to_nothing() {
    runtime().block_on(async {
        let port = free_port();
        let address = address(&format!("127.0.0.1:{port}"), "");
        let error = PostgresStore::new(&address).unwrap().join(node(1), birth()).await.unwrap_err();
        assert!(matches!(&error, SharedError::Away(why) if why.contains(&port.to_string())), "{error}");
    });
}

#[test]
fn a_disk_that_is_full_loses_nothing_and_goes_on_when_it_has_room() {
    // No file may be larger than this, and the log's files have 16 MiB.
    let file_bytes_max = Some((20 << 20) + 100);
    let postgres = Postgres::start(PostgresOptions { file_bytes_max, ..PostgresOptions::default() });
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Chain::new(reign);
        let (mut durable, mut told_full) = (0, None);
        for _ in 0..200 {
            let append = stream.next(300_000);
            match persist(&store, &append).await {
                Landing::Durable => durable += 1,
                Landing::Full => {
                    told_full = Some(append);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let last = told_full.expect("the disk never was full");
        assert!(durable > 10, "{durable}");
        assert_eq!(persist(&store, &last).await, Landing::Full);
        assert_eq!(store.room(), Room::Low { left_bytes: 0 });
        store.beat(NodeRecord { beat: 1, ..node(1) }).await.unwrap();
        assert!(
            read_all(&store, 0).await == stream.records[..durable],
            "what was told durable is there, and nothing else"
        );

        // A checkpoint covers the batches, and the operator's vacuum gives their room back.
        let upto = leasehold_journal::Position(last.batch.first.0 - 1);
        let id = leasehold_cluster::CheckpointId { epoch: reign.epoch(), upto };
        store.put_chunk(reign, id, 0, b"facts".to_vec()).await.unwrap();
        store.finish_checkpoint(reign, id, 1).await.unwrap();
        while store.sweep(reign).await.unwrap() {}
        postgres.sql(0, &format!("VACUUM {}.batch", address.schema));
        assert_eq!(persist(&store, &last).await, Landing::Durable);
        assert_eq!(store.room(), Room::Enough);
        let read = read_all(&store, 0).await;
        assert!(read == [b"facts".to_vec(), last.batch.record], "{} records", read.len());
        println!("PostgreSQL store: full after {durable} batches, all of them there");
    });
}

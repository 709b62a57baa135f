//! An etcd, a prefix or a setting that cannot be right: each is refused with a sentence, and nothing is written.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_cluster::{Birth, Landing, Partitions, SharedError, SharedStore};
use leasehold_etcd::wire::{
    AlarmRequest, AlarmType, Call, PutRequest, RangeRequest, RangeResponse, Request, RequestOp, ResponseHeader,
    StatusResponse, TxnRequest,
};
use leasehold_etcd::{Address, Client, EtcdStore};
use leasehold_journal::Room;
use leasehold_testbed::{Etcd, EtcdOptions, Proxy};
use prost::Message as _;

use super::common::{Chain, SECOND, address, birth, joined, node, persist, read_all, runtime, take};

async fn put(client: &Client, key: String, value: &'static [u8]) {
    let put = PutRequest { key: Bytes::from(key), value: Bytes::from_static(value) };
    let op = RequestOp { request: Some(Request::Put(put)) };
    client.call(&TxnRequest { success: vec![op], ..TxnRequest::default() }, 5 * SECOND).await.unwrap();
}

async fn below(client: &Client, address: &Address) -> RangeResponse {
    let (key, range_end) = (Bytes::from(format!("{}/", address.prefix)), Bytes::from(format!("{}0", address.prefix)));
    client.call(&RangeRequest { key, range_end, ..RangeRequest::default() }, 5 * SECOND).await.unwrap()
}

async fn refused(address: &Address, birth: Birth) -> String {
    match EtcdStore::new(address).unwrap().join(node(1), birth).await {
        Err(SharedError::Refused(sentence)) => sentence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_prefixes_and_facts() {
    let etcd = Etcd::one();
    runtime().block_on(async {
        let foreign = address(&etcd.hosts(), "");
        let client = Client::new(&foreign).unwrap();
        put(&client, format!("{}/registry/pods", foreign.prefix), b"kubernetes").await;
        let sentence = refused(&foreign, birth()).await;
        assert!(sentence.contains("choose another prefix"), "{sentence}");
        assert_eq!(below(&client, &foreign).await.kvs.len(), 1, "nothing was written");

        let spoilt = address(&etcd.hosts(), "");
        put(&client, format!("{}/meta", spoilt.prefix), b"LHM?").await;
        let sentence = refused(&spoilt, birth()).await;
        assert!(sentence.contains("not the facts of a cluster that this build understands"), "{sentence}");

        let sound = address(&etcd.hosts(), "");
        joined(&sound, 9).await;
        let sentence = refused(&sound, Birth { partitions: Partitions::new(16), ..birth() }).await;
        assert!(sentence.contains("has 8 partitions for ever, and 16 were asked for"), "{sentence}");
        let sentence = refused(&sound, Birth { format: 0, ..birth() }).await;
        assert!(sentence.contains("uses format 1, this build understands formats up to 0"), "{sentence}");

        // Keys that came from another etcd, as a copy does.
        put(&client, format!("{}/etcd", sound.prefix), b"00000000deadbeef").await;
        let sentence = refused(&sound, birth()).await;
        assert!(sentence.contains("made in another etcd cluster (id 00000000deadbeef"), "{sentence}");
    });
}

#[test]
fn members_of_two_clusters_in_one_address() {
    let (mut first, second) = (Etcd::one(), Etcd::one());
    let proxy = Proxy::start(second.members()[0].client);
    let address = address(&format!("{},{}", first.hosts(), proxy.addr()), "");
    runtime().block_on(async {
        let sentence = refused(&address, birth()).await;
        assert!(sentence.contains("another etcd cluster"), "{sentence}");
        // Found later, it is not used, and refused once no other member answers.
        proxy.close();
        let store = joined(&address, 1).await;
        proxy.heal();
        store.confirm().await.unwrap();
        first.kill(0);
        let sentence = store.confirm().await.unwrap_err().to_string();
        assert!(sentence.contains("another etcd cluster"), "{sentence}");
    });
}

/// A stand-in for releases that cannot be installed any more: it answers every call with a status.
fn old_etcd(version: &str) -> SocketAddr {
    let status = StatusResponse {
        header: Some(ResponseHeader { cluster_id: 1, ..ResponseHeader::default() }),
        version: version.to_owned(),
        ..StatusResponse::default()
    };
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(status.encoded_len()).unwrap().to_be_bytes());
    status.encode(&mut body).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let body = Bytes::from(body.clone());
            tokio::spawn(async move {
                let service = service_fn(move |_| {
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                    let body = Full::new(body.clone()).with_trailers(std::future::ready(Some(Ok(trailers))));
                    let response = http::Response::builder().header("content-type", "application/grpc").body(body);
                    async { Ok::<_, Infallible>(response.unwrap()) }
                });
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    addr
}

#[test]
fn an_etcd_that_is_too_old() {
    runtime().block_on(async {
        for (version, is_refused) in [("3.4.21", true), ("3.5.5", true), ("", true), ("3.4.22", false)] {
            let address = address(&old_etcd(version).to_string(), "");
            let result = EtcdStore::new(&address).unwrap().join(node(1), birth()).await;
            let sentence = result.unwrap_err().to_string();
            // The stand-in knows nothing but its status, so the right version gets as far as that.
            let words = if version.is_empty() { "has no version" } else { "can lose acknowledged writes" };
            assert_eq!(sentence.contains(words), is_refused, "{version}: {sentence}");
        }
    });
}

#[test]
fn an_address_that_leads_to_nothing() {
    runtime().block_on(async {
        let port = leasehold_testbed::free_port();
        let address = address(&format!("127.0.0.1:{port}"), "");
        let error = EtcdStore::new(&address).unwrap().join(node(1), birth()).await.unwrap_err();
        assert!(matches!(&error, SharedError::Away(why) if why.contains(&port.to_string())), "{error}");
    });
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct DefragmentRequest {}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct DefragmentResponse {}

impl Call for DefragmentRequest {
    type Answer = DefragmentResponse;
    const PATH: &'static str = "/etcdserverpb.Maintenance/Defragment";
}

#[test]
fn an_etcd_that_is_full_loses_nothing_and_goes_on_when_it_has_room() {
    const QUOTA_BYTES: u64 = 16 << 20;
    let arguments = vec!["--quota-backend-bytes".to_owned(), QUOTA_BYTES.to_string()];
    let etcd = Etcd::start(EtcdOptions { arguments, ..EtcdOptions::default() });
    let address = address(&etcd.hosts(), &format!("?quota={QUOTA_BYTES}"));
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Chain::new(reign);
        let (mut durable, mut told_full) = (0, None);
        for _ in 0..200 {
            let append = stream.next(100_000);
            match persist(&store, &append).await {
                Landing::Durable => durable += 1,
                Landing::Full => {
                    told_full = Some(append);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        let last = told_full.expect("the quota was never reached");
        assert!(durable > 10, "{durable}");
        assert_eq!(persist(&store, &last).await, Landing::Full);
        let error = store.beat(leasehold_cluster::NodeRecord { beat: 1, ..node(1) }).await.unwrap_err();
        assert!(matches!(&error, SharedError::Full(why) if why.contains("alarm disarm")), "{error}");
        store.confirm().await.unwrap();
        let read = read_all(&store, 0).await;
        assert_eq!(read, stream.records[..durable], "what was told durable is there, and nothing else");
        let began_at = Instant::now();
        while store.room() == Room::Enough {
            assert!(began_at.elapsed() < 30 * SECOND, "the room is never low");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(store.room(), Room::Low { left_bytes: 0 });

        // A checkpoint cannot be written either, so the operator makes room as the sentence says.
        let client = Client::new(&address).unwrap();
        let revision = below(&client, &address).await.header.unwrap().revision;
        client.call(&leasehold_etcd::wire::CompactionRequest { revision }, 5 * SECOND).await.unwrap();
        client.call(&DefragmentRequest {}, 20 * SECOND).await.unwrap();
        let disarm = AlarmRequest { action: 2, member_id: 0, alarm: AlarmType::NoSpace.into() };
        for alarm in client.call(&AlarmRequest::default(), 5 * SECOND).await.unwrap().alarms {
            client.call(&AlarmRequest { member_id: alarm.member_id, ..disarm }, 5 * SECOND).await.unwrap();
        }
        // There is no more room than before, so at most a little fits; the alarm comes back, and nothing is lost.
        let landing = persist(&store, &last).await;
        assert!(matches!(landing, Landing::Durable | Landing::Full), "{landing:?}");
        let there = durable + usize::from(landing == Landing::Durable);
        let read = read_all(&store, 0).await;
        assert!(read.len() >= there && read == stream.records[..read.len()], "{} of {there}", read.len());
        println!("etcd store: full after {durable} batches, all of them there");
    });
}

//! etcd's messages, derived in code, and the calls that are made with them. There is no generated code and no protoc:
//! a dozen messages are used, and their field numbers never change.

mod admin;
mod kv;

pub use admin::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, AuthenticateRequest, AuthenticateResponse, Member,
    MemberListRequest, MemberListResponse, StatusRequest, StatusResponse,
};
pub use kv::{
    CompactionRequest, CompactionResponse, Compare, CompareResult, CompareTarget, DeleteRangeRequest,
    DeleteRangeResponse, Event, KeyValue, PutRequest, PutResponse, RangeRequest, RangeResponse, Request, RequestOp,
    Response, ResponseHeader, ResponseOp, SortOrder, TargetUnion, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchResponse,
};

/// A call with one request and one answer.
pub trait Call: prost::Message + Clone + Default + 'static {
    /// The answer.
    type Answer: prost::Message + Default + 'static;
    /// Its place among etcd's services.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ty => $answer:ty, $path:literal;)*) => {
        $(impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = $path;
        })*
    };
}

calls! {
    RangeRequest => RangeResponse, "/etcdserverpb.KV/Range";
    TxnRequest => TxnResponse, "/etcdserverpb.KV/Txn";
    CompactionRequest => CompactionResponse, "/etcdserverpb.KV/Compact";
    StatusRequest => StatusResponse, "/etcdserverpb.Maintenance/Status";
    AlarmRequest => AlarmResponse, "/etcdserverpb.Maintenance/Alarm";
    MemberListRequest => MemberListResponse, "/etcdserverpb.Cluster/MemberList";
    AuthenticateRequest => AuthenticateResponse, "/etcdserverpb.Auth/Authenticate";
}

/// The one call with a stream each way.
pub const WATCH_PATH: &str = "/etcdserverpb.Watch/Watch";

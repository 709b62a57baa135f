//! Transactions in the words of the store.

use bytes::Bytes;

use crate::keys::Range;
use crate::wire::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse,
    Request, RequestOp, Response, TargetUnion, TxnRequest, TxnResponse,
};

/// A transaction under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Txn(pub(crate) TxnRequest);

impl Txn {
    pub(crate) fn when(mut self, compare: Compare) -> Txn {
        self.0.compare.push(compare);
        self
    }

    pub(crate) fn then(mut self, op: RequestOp) -> Txn {
        self.0.success.push(op);
        self
    }

    pub(crate) fn or_else(mut self, op: RequestOp) -> Txn {
        self.0.failure.push(op);
        self
    }
}

/// The key has this version, where 0 means that there is none.
pub(crate) fn version_is(key: Bytes, version: u64) -> Compare {
    compare(key, Bytes::new(), CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(signed(version)))
}

/// The key is there with this value.
pub(crate) fn value_is(key: Bytes, value: impl Into<Bytes>) -> Compare {
    compare(key, Bytes::new(), CompareResult::Equal, CompareTarget::Value, TargetUnion::Value(value.into()))
}

/// No key in the range was changed after this revision.
pub(crate) fn unchanged_since(range: Range, revision: u64) -> Compare {
    let after = TargetUnion::ModRevision(signed(revision + 1));
    compare(range.from, range.to, CompareResult::Less, CompareTarget::Mod, after)
}

pub(crate) fn exists(key: Bytes) -> Compare {
    compare(key, Bytes::new(), CompareResult::Greater, CompareTarget::Create, TargetUnion::CreateRevision(0))
}

pub(crate) fn is_absent(key: Bytes) -> Compare {
    version_is(key, 0)
}

/// No key of the range exists.
pub(crate) fn is_empty(range: Range) -> Compare {
    compare(range.from, range.to, CompareResult::Equal, CompareTarget::Create, TargetUnion::CreateRevision(0))
}

fn compare(key: Bytes, range_end: Bytes, result: CompareResult, target: CompareTarget, with: TargetUnion) -> Compare {
    Compare { result: result.into(), target: target.into(), key, with: Some(with), range_end }
}

pub(crate) fn put(key: Bytes, value: impl Into<Bytes>) -> RequestOp {
    RequestOp { request: Some(Request::Put(PutRequest { key, value: value.into() })) }
}

pub(crate) fn get(key: Bytes) -> RequestOp {
    range_op(RangeRequest { key, ..RangeRequest::default() })
}

/// All of a range that is known to be small.
pub(crate) fn get_all(range: Range) -> RequestOp {
    get_some(range, 0)
}

/// The first keys of a range, in order.
pub(crate) fn get_some(range: Range, limit: i64) -> RequestOp {
    range_op(RangeRequest { key: range.from, range_end: range.to, limit, ..RangeRequest::default() })
}

/// The first keys of a range without their values.
pub(crate) fn keys_of(range: Range, limit: i64) -> RequestOp {
    range_op(RangeRequest { key: range.from, range_end: range.to, limit, keys_only: true, ..RangeRequest::default() })
}

pub(crate) fn count(range: Range) -> RequestOp {
    range_op(RangeRequest { key: range.from, range_end: range.to, count_only: true, ..RangeRequest::default() })
}

fn range_op(request: RangeRequest) -> RequestOp {
    RequestOp { request: Some(Request::Range(request)) }
}

pub(crate) fn delete(key: Bytes) -> RequestOp {
    RequestOp { request: Some(Request::DeleteRange(DeleteRangeRequest { key, range_end: Bytes::new() })) }
}

pub(crate) fn delete_all(range: Range) -> RequestOp {
    RequestOp { request: Some(Request::DeleteRange(DeleteRangeRequest { key: range.from, range_end: range.to })) }
}

/// etcd's revisions are positive.
fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

/// The answer to a transaction: whether its compares held, and the ranges that were read.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    /// The revision at which it was executed.
    pub(crate) revision: u64,
    ranges: std::vec::IntoIter<RangeResponse>,
}

impl Outcome {
    pub(crate) fn new(response: TxnResponse) -> Outcome {
        let ranges: Vec<RangeResponse> = response
            .responses
            .into_iter()
            .filter_map(|op| match op.response {
                Some(Response::Range(range)) => Some(range),
                _ => None,
            })
            .collect();
        let revision = unsigned(response.header.unwrap_or_default().revision);
        Outcome { succeeded: response.succeeded, revision, ranges: ranges.into_iter() }
    }

    /// The next range that was asked for.
    pub(crate) fn range(&mut self) -> RangeResponse {
        self.ranges.next().unwrap_or_default()
    }

    /// The next key that was asked for.
    pub(crate) fn key(&mut self) -> Option<KeyValue> {
        self.range().kvs.into_iter().next()
    }
}

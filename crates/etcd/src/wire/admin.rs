//! Calls about etcd itself: status, members, alarms, and who may ask.

use prost::Message;

use super::kv::ResponseHeader;

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Of the member that answers.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The size of its file, free pages included. The quota is compared with this.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
    /// From 3.6 on; otherwise 0.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct MemberListRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct MemberListResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

/// Asks for alarms of every kind, of every member.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmRequest {
    /// 0 to ask, 2 to disarm, which only tests do.
    #[prost(int32, tag = "1")]
    pub action: i32,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(enumeration = "AlarmType", tag = "3")]
    pub alarm: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmType {
    None = 0,
    NoSpace = 1,
    Corrupt = 2,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AlarmResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    #[prost(enumeration = "AlarmType", tag = "2")]
    pub alarm: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub token: String,
}

//! The time side of a grant or a renewal, the same in every dialect: the rest of the lease, when to renew it, how long
//! the call waited for it, and whether it asked for more than it may have.

use leasehold_engine::Time;

use crate::http::json::write::Object;
use crate::openapi::Schema;

/// Renew after this part of the lease, so that two attempts may fail.
const RENEW_PART: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// When the call came, …
    pub(crate) asked_at: Time,
    /// … and when the lease was looked at: its rest counts from here.
    pub(crate) now: Time,
    pub(crate) deadline: Time,
    /// The `ttl` or the `wait` of the call was above the maximum.
    pub(crate) clamped: bool,
}

impl Terms {
    /// All of them. A caller that read its clock before it sent the call has the lease for `waited_s` and `expires_in`
    /// from then.
    pub(crate) fn write(&self, object: &mut Object) {
        write_rest(object, self.deadline.since(self.now));
        object.boolean("clamped", self.clamped).seconds("waited_s", self.now.since(self.asked_at));
    }
}

/// The rest of a lease that is only looked at. It never overstates: fractions are cut off.
pub(crate) fn write_rest(object: &mut Object, rest_us: u64) {
    object.seconds("expires_in", rest_us).seconds("renew_after", rest_us / RENEW_PART / 1_000 * 1_000);
}

/// The members of `write_rest`, for the OpenAPI document.
pub(crate) fn document_rest(schema: Schema, member: fn(Schema, &str, Schema) -> Schema) -> Schema {
    let schema = member(schema, "expires_in", Schema::seconds().says("Seconds until it ends, no more than there are."));
    member(schema, "renew_after", Schema::seconds().says("Seconds until a good time to renew: two attempts may fail."))
}

/// The further members of `Terms::write`.
pub(crate) fn document(schema: Schema, member: fn(Schema, &str, Schema) -> Schema) -> Schema {
    let schema = document_rest(schema, member);
    let clamped =
        Schema::boolean().says("True if the `ttl` or the `wait` asked for was above the maximum and cut to it.");
    let waited = Schema::seconds().says(
        "Seconds this call waited in line. Counted from before it was sent, the lease lasts `waited_s` and `expires_in`.",
    );
    member(member(schema, "clamped", clamped), "waited_s", waited)
}

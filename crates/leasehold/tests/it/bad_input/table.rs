//! Bodies that are no JSON, JSON that is not strict enough, and fields that are not what they must be, for every call
//! that has a body.

use super::{Known, Row};

pub(super) fn rows(known: &Known) -> Vec<Row> {
    let mut rows = unreadable(known);
    rows.extend(pools(known));
    rows.extend(claims(known));
    rows
}

/// No call accepts these. Each comes with the sentence about it.
const UNREADABLE: [(&[u8], &str); 43] = [
    (b"", "empty"),
    (b" \r\n\t", "empty"),
    (b"{", "not complete json"),
    (b"{\"a\"", "not complete json"),
    (b"{\"a\":", "not complete json"),
    (b"{\"a\":\"", "not complete json"),
    (b"{\"a\":[1,2", "not complete json"),
    (b"nul", "json"),
    (b"null", "must be a json object"),
    (b"true", "must be a json object"),
    (b"17", "must be a json object"),
    (b"\"text\"", "must be a json object"),
    (b"[]", "must be a json object"),
    (b"[{}]", "must be a json object"),
    (b"}", "not valid json"),
    (b"{]", "not valid json"),
    (b"{\"a\"}", "not valid json"),
    (b"{\"a\":}", "not valid json"),
    (b"{\"a\":1,}", "not valid json"),
    (b"{a:1}", "not valid json"),
    (b"{'a':1}", "not valid json"),
    (b"{\"a\":1}x", "not valid json"),
    (b"{\"a\":1}{}", "not valid json"),
    (b"{/* a */}", "not valid json"),
    (b"\xef\xbb\xbf{}", "not valid json"),
    (b"{\"a\":NaN}", "not valid json"),
    (b"{\"a\":Infinity}", "not valid json"),
    (b"{\"a\":-Infinity}", "not valid json"),
    (b"{\"a\":01}", "not valid json"),
    (b"{\"a\":+1}", "not valid json"),
    (b"{\"a\":.5}", "not valid json"),
    (b"{\"a\":1.}", "not valid json"),
    (b"{\"a\":0x10}", "not valid json"),
    (b"{\"a\":\"\x01\"}", "not valid json"),
    (b"{\"a\":\"\\x\"}", "not valid json"),
    (b"{\"a\":1e999}", "not finite"),
    (b"{\"a\":[-1e999]}", "not finite"),
    (b"{\"a\":1,\"a\":2}", "\"a\" is given twice"),
    (b"{\"a\":1,\"\\u0061\":1}", "\"a\" is given twice"),
    (b"{\"a\":{\"b\":1,\"c\":[],\"b\":1}}", "\"b\" is given twice"),
    (b"{\"a\":\"\xff\"}", "not utf-8"),
    (b"{\"a\":\"\xc0\xaf\"}", "not utf-8"),
    (b"{\"a\":\"\xed\xa0\x80\"}", "not utf-8"),
];

fn unreadable(known: &Known) -> Vec<Row> {
    let Known { pool, claim, .. } = known;
    let calls = [
        ("PUT", format!("/l/{pool}")),
        ("POST", format!("/l/{pool}/borrow")),
        ("POST", format!("/l/{pool}/return")),
        ("POST", format!("/l/{pool}/renew")),
        ("POST", "/v1/claims/".to_owned()),
        ("PATCH", format!("/v1/claims/{claim}/")),
        ("PUT", format!("/v1/claims/{claim}")),
        ("PUT", "/v1/resources/known".to_owned()),
    ];
    let mut rows = Vec::new();
    for (method, target) in calls {
        for (body, names) in UNREADABLE {
            rows.push(Row::new(method, &target, body, 400).naming(names));
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
        rows.push(Row::new(method, &target, deep, 400).naming("deep"));
        rows.push(Row::new(method, &target, r#"{"a":"\ud800"}"#, 400).naming("not valid json"));
    }
    rows
}

fn pools(known: &Known) -> Vec<Row> {
    let Known { pool, lease, .. } = known;
    let (put, borrow, give_back, renew) =
        (format!("/l/{pool}"), format!("/l/{pool}/borrow"), format!("/l/{pool}/return"), format!("/l/{pool}/renew"));
    let mut rows = Vec::new();
    let counts = ["-1", "1.5", "1001", "1e4", "1e308", "18446744073709551616", "\"5\"", "null", "true", "[1]", "{}"];
    for count in counts {
        rows.push(
            Row::new("PUT", &put, format!("{{\"count\":{count}}}"), 400).naming("count must be an integer from 0"),
        );
    }
    rows.push(Row::new("PUT", &put, "{}", 400).naming("count is missing"));
    rows.push(Row::new("PUT", &put, "{\"Count\":5}", 400).naming("count is missing"));

    let no_ttl = ["0", "0.0", "-0", "-1", "-1e-9", "1e-400", "\"5\"", "\"5x\"", "null", "true", "[5]", "{}"];
    for ttl in no_ttl {
        let names = "ttl must be a number greater than 0";
        rows.push(Row::new("POST", &borrow, format!("{{\"ttl\":{ttl}}}"), 400).naming(names));
        rows.push(Row::new("POST", &renew, format!("{{\"lease\":\"{lease}\",\"ttl\":{ttl}}}"), 400).naming(names));
    }
    rows.push(Row::new("POST", &borrow, "{}", 400).naming("ttl is missing"));
    rows.push(Row::new("POST", &borrow, "{\"wait\":5}", 400).naming("ttl is missing"));
    rows.push(Row::new("POST", &renew, format!("{{\"lease\":\"{lease}\"}}"), 400).naming("ttl is missing"));
    for wait in ["-1", "-0.001", "\"5\"", "null", "false", "[]", "{}"] {
        let body = format!("{{\"ttl\":5,\"wait\":{wait}}}");
        rows.push(Row::new("POST", &borrow, body, 400).naming("wait must be a number of at least 0"));
    }

    let bare = lease.replace('-', "");
    let no_uuids = [
        "null".to_owned(),
        "5".to_owned(),
        "[]".to_owned(),
        "\"\"".to_owned(),
        "\"lease\"".to_owned(),
        format!("\"{bare}\""),
        format!("\"{{{lease}}}\""),
        format!("\"urn:uuid:{lease}\""),
        format!("\" {lease}\""),
        format!("\"{lease}0\""),
        format!("\"{}g\"", &lease[..35]),
        format!("\"{}\\u0000\"", &lease[..35]),
    ];
    for text in no_uuids {
        let names = "lease must be a uuid";
        rows.push(Row::new("POST", &give_back, format!("{{\"lease\":{text}}}"), 400).naming(names));
        rows.push(Row::new("POST", &renew, format!("{{\"lease\":{text},\"ttl\":5}}"), 400).naming(names));
    }
    rows.push(Row::new("POST", &give_back, "{}", 400).naming("lease is missing"));
    rows.push(Row::new("POST", &renew, "{\"ttl\":5}", 400).naming("lease is missing"));

    // At the ends of the allowed range, and unknown members: fine here.
    rows.push(Row::new("PUT", &put, "{\"count\":1e3}", 200));
    rows.push(Row::new("POST", &borrow, "{\"ttl\":1e308,\"wait\":1e308}", 200));
    rows.push(Row::new("POST", &borrow, "{\"ttl\":5e-324}", 200));
    rows.push(Row::new("POST", &borrow, "{\"ttl\":0.001,\"note\":{\"any\":[1,null]}}", 200));
    rows.push(Row::new("POST", &give_back, format!("{{\"lease\":\"{}\"}}", crate::support::random_uuid()), 200));

    for key in ["", "two words", "caf\u{e9}", &"k".repeat(256)] {
        rows.push(Row::new("POST", &borrow, "{\"ttl\":5}", 400).with("idempotency-key", key).naming("idempotency-key"));
    }
    let twice = Row::new("POST", &borrow, "{\"ttl\":5}", 400).with("idempotency-key", "a").with("idempotency-key", "b");
    rows.push(twice.naming("idempotency-key"));
    rows.push(Row::new("POST", &borrow, "{\"ttl\":0.01}", 200).with("idempotency-key", "k".repeat(255)));
    rows
}

fn claims(known: &Known) -> Vec<Row> {
    let one = format!("/v1/claims/{}/", known.claim);
    let mut rows = Vec::new();
    let create = |body: String| Row::new("POST", "/v1/claims/", body, 400);
    rows.push(create("{}".to_owned()).naming("resource is missing"));
    rows.push(create("{\"timeout\":5}".to_owned()).naming("resource is missing"));
    rows.push(create("{\"resource\":\"r\"}".to_owned()).naming("timeout is missing"));
    for resource in ["\"\"", "5", "null", "true", "[\"r\"]", &format!("\"{}\"", "r".repeat(1_025))] {
        let names = "resource must be a string of 1 to 1024 bytes";
        rows.push(create(format!("{{\"resource\":{resource},\"timeout\":5}}")).naming(names));
    }
    // Counted in bytes, not in letters.
    rows.push(create(format!("{{\"resource\":\"{}\",\"timeout\":5}}", "\u{e9}".repeat(513))).naming("1026 bytes"));
    let no_durations = ["-1", "-1e-9", "1000000001", "1e300", "\"5\"", "null", "true", "[]", "{}"];
    for timeout in no_durations {
        rows.push(create(format!("{{\"resource\":\"r\",\"timeout\":{timeout}}}")).naming("timeout must be a number"));
        for field in ["ttl", "timeout"] {
            let body = format!("{{\"{field}\":{timeout}}}");
            rows.push(Row::new("PATCH", &one, body, 400).naming(format!("{field} must be a number")));
        }
    }
    for (more, names) in [
        ("\"colour\":\"red\"", "unknown field \"colour\""),
        ("\"Resource\":\"r\"", "unknown field \"resource\""),
        ("\"ttl\":5", "timeout and ttl"),
        ("\"metadata\":1,\"user_data\":1", "metadata and user_data"),
    ] {
        rows.push(create(format!("{{\"resource\":\"r\",\"timeout\":5,{more}}}")).naming(names));
    }
    let metadata = "m".repeat(16 * 1024 - 1);
    let body = format!("{{\"resource\":\"r\",\"timeout\":0,\"metadata\":\"{metadata}\"}}");
    rows.push(create(body).naming("metadata has 16385 bytes"));
    let body = format!("{{\"resource\":\"at the limit\",\"timeout\":0,\"metadata\":\"{}\"}}", &metadata[1..]);
    rows.push(Row::new("POST", "/v1/claims", body, 201));

    rows.push(Row::new("PATCH", &one, "{}", 400).naming("nothing to change"));
    rows.push(Row::new("PUT", &one, "{}", 400).naming("nothing to change"));
    rows.push(Row::new("PATCH", &one, "{\"ttl\":5,\"colour\":1}", 400).naming("unknown field \"colour\""));
    rows.push(Row::new("PATCH", &one, "{\"resource\":\"other\"}", 400).naming("unknown field \"resource\""));
    for status in ["\"waiting\"", "\"expired\"", "\"\"", "\"Active\"", "\"nonsense\"", "5", "null", "[\"active\"]"] {
        rows.push(Row::new("PATCH", &one, format!("{{\"status\":{status}}}"), 400).naming("status must be"));
    }
    // Not there is not there, whatever the body says.
    for id in ["nonsense", "%00", "00000000-0000-4000-8000-000000000000", &known.pool, &"1".repeat(1_000)] {
        for body in ["{}", "{", "{\"status\":\"released\"}"] {
            rows.push(Row::new("PATCH", format!("/v1/claims/{id}"), body, 404).naming("no such claim"));
        }
        rows.push(Row::new("GET", format!("/v1/claims/{id}/"), "", 404).naming("no such claim"));
    }
    let capacities = ["-1", "0.5", "1001", "\"5\"", "null", "true", "1e308"];
    for capacity in capacities {
        let body = format!("{{\"capacity\":{capacity}}}");
        rows.push(Row::new("PUT", "/v1/resources/known", body, 400).naming("capacity must be an integer from 0"));
    }
    rows.push(Row::new("PUT", "/v1/resources/known", "{}", 400).naming("capacity is missing"));
    rows.push(Row::new("PUT", "/v1/resources/known", "{\"capacity\":1,\"x\":1}", 400).naming("unknown field \"x\""));
    rows
}

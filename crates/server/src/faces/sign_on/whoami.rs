//! `GET /v1/whoami`: the caller's name as the service knows it, and the rights of that name. For people who wonder why
//! they are refused, and for the dashboard, which shows only the buttons that work, and where to send calls to.

use http::{Response, StatusCode};

use crate::auth::Caller;
use crate::http::json::write::{Object, write_string};
use crate::http::{Body, RequestId, response};

pub(super) fn answer(who: Option<&Caller>, api_url: &str, id: &RequestId) -> Response<Body> {
    let mut object = Object::new();
    object.boolean("sign_on", who.is_some());
    if let Some(Caller { identity, sign_on }) = who {
        let actions = sign_on.policy().actions_of(identity);
        let actions = strings(actions.iter().map(|action| action.as_str()));
        match identity.principal() {
            Some(principal) => {
                let groups = strings(principal.groups.iter().map(|group| &**group));
                object.string("name", &principal.name).string("source", principal.source.as_str());
                object.raw("groups", &groups);
            }
            None => {
                object.raw("name", "null").raw("source", "null").raw("groups", "[]");
            }
        }
        object.raw("actions", &actions).boolean("login", sign_on.login().is_some());
    }
    object.string("api_url", api_url);
    response::json(StatusCode::OK, id, object.end())
}

fn strings<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let mut bytes = vec![b'['];
    for (index, item) in items.enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        write_string(&mut bytes, item);
    }
    bytes.push(b']');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

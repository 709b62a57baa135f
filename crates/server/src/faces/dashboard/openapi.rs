//! The dashboard in the OpenAPI document.

use super::routes::Endpoint;
use crate::faces::page;
use crate::openapi::Operation;

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Page => page::page("dashboard", "The dashboard"),
        Endpoint::Asset => page::file("dashboardFile", "A file of the dashboard"),
    }
}

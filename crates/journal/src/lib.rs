//! Where changes become durable.

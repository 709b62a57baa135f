//! The callers that an endpoint is meant for, and so the listener that serves it.

/// The callers that an endpoint is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Clients that borrow, claim and lock.
    Api,
    /// Those clients, and operators who look after claims: find one, give one back, take a waiter out of a queue.
    Tend,
    /// Observers: they see everything but secrets, and change nothing.
    Observe,
    /// Operators: they change the claims of others.
    Admin,
    /// Callers that sign on, to either of the two.
    SignOn,
    /// Probes of the process, so it is served everywhere and to all callers.
    Health,
    /// How to speak to this listener. It reveals nothing about any caller, so it is served everywhere and to all
    /// callers.
    Docs,
}

/// The endpoints of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everything: the only listener there is.
    Whole,
    /// The endpoints for callers, where observers have a listener of their own.
    Callers,
    /// That other listener.
    Operators,
}

impl Audience {
    pub(crate) fn is_served(self, class: Class) -> bool {
        match (self, class) {
            (Audience::Whole, _) | (_, Class::Health | Class::SignOn | Class::Docs) => true,
            (Audience::Callers, class) => matches!(class, Class::Api | Class::Tend),
            (Audience::Operators, class) => matches!(class, Class::Observe | Class::Admin | Class::Tend),
        }
    }
}

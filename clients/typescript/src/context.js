// What the parts of one client share.
/** Calls what the user gave. It can delay and break nothing: it runs in a turn of its own, and what it throws is logged. */
export function callUser(context, about, call) {
    if (!call)
        return;
    queueMicrotask(() => {
        Promise.resolve()
            .then(call)
            .catch((thrown) => {
            const message = `a callback threw ${thrown instanceof Error ? thrown.name : typeof thrown}`;
            context.log({ event: "callback_failed", kind: about.kind, resource: about.resource, message });
        });
    });
}

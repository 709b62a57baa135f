// The actions of a user on the page: release, revoke, take out of a queue. Each asks first, says what will happen and to whom,
// and shows a refusal in words where it was asked.

import { configure, pause, Problem, releaseClaim, releaseLock, resume, revoke, takeOut, withdrawClaim } from "./api.js";
import { announce, byId, h } from "./dom.js";
import { nameOf } from "./format.js";
import { may } from "./who.js";

const dialog = byId("act-dialog");
let running = null;

byId("act-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void confirmed();
});
byId("act-cancel").addEventListener("click", () => dialog.close());

/** Ends a hold at once, whatever its holder thinks. Works for every kind. */
export function askRevoke(detail, holder, who) {
  ask({
    title: `Revoke ${who}’s hold?`,
    text: `It ends at once. ${nextWords(detail)} ${who} is not told: it learns of it at its next call, and until then may go on using what it had. Token ${holder.token} is no longer good, so whatever checks tokens will turn it away.`,
    facts: factsOf(detail, holder, who),
    confirm: "Revoke",
    done: `Revoked ${who}’s hold.`,
    run: async () => {
      const { revoked } = await revoke(detail.key, holder.token);
      if (!revoked) throw new Problem(409, `Nothing to revoke: ${who} no longer holds it.`);
    },
  });
}

/** Gives a hold back in its holder's name. Only a client that has its id can return a pool's lease. */
export const canRelease = (detail, holder) => mayChange() && (detail.kind === "lock" || (detail.kind === "claim" && Boolean(holder.claim)));

export function askRelease(detail, holder, who) {
  ask({
    title: `Release it for ${who}?`,
    text: `It is given back as if ${who} had done it. ${nextWords(detail)} In the history it will read as released; to have it read as taken away, revoke it instead.`,
    facts: factsOf(detail, holder, who),
    confirm: "Release",
    done: `Released for ${who}.`,
    run: () => (detail.kind === "lock" ? releaseLock(detail.name, holder.client) : releaseClaim(holder.claim)),
  });
}

/** A claim by its id; a caller that waits for a lock or a slot by its order, which takes the right to revoke. */
export const canWithdraw = (waiter) => (waiter.claim ? mayChange() : may("revoke-any") && Number.isInteger(waiter.order));

export function askWithdraw(detail, waiter, who) {
  ask({
    title: `Take ${who} out of the queue?`,
    text: "Its claim ends as withdrawn and does not come back by itself. The waiters behind it move up.",
    facts: [["Resource", nameOf(detail)], ["Place", String(waiter.place)]],
    confirm: "Take out",
    done: `${who} is out of the queue.`,
    run: () => (waiter.claim ? withdrawClaim(waiter.claim) : takeOut(detail.key, waiter.order)),
  });
}

/** A lock has one slot by its design, and a pool is configured by the callers that know its id. */
export const canConfigure = (detail) => detail.kind === "claim" && may("configure");

export function askCapacity(detail, changed) {
  const input = h("input", { type: "number", id: "act-capacity", min: 1, step: 1, value: detail.capacity, required: true, inputmode: "numeric" });
  ask({
    title: `Capacity of ${nameOf(detail)}`,
    text: "The number of claims that hold it at once. With fewer than are in use now, no holder loses its slot: new claims wait until enough have ended.",
    facts: [["In use", String(detail.in_use)], ["Waiting", String(detail.waiting)]],
    field: h("label", { class: "field" }, "Capacity ", input),
    confirm: "Set",
    mild: true,
    done: "The capacity is set.",
    run: async () => {
      await configure(detail.name, { capacity: Number(input.value) });
      changed();
    },
  });
  input.focus();
  input.select();
}

/** A pool is paused by the callers that know its id. */
export const canPause = (detail) => detail.kind !== "pool" && may("configure");

export function askPause(detail, changed) {
  const reason = h("input", { type: "text", id: "act-reason", maxlength: 200, required: true, value: detail.paused?.reason ?? "" });
  const minutes = h("input", { type: "number", id: "act-minutes", min: 1, step: 1, inputmode: "numeric", placeholder: "until resumed" });
  ask({
    title: `Pause ${nameOf(detail)}?`,
    text: "Nothing is granted until it is resumed, or the minutes are over. Holders keep what they have and may renew, and the queue stays. Callers that wait or are refused see the reason.",
    facts: [["In use", String(detail.in_use)], ["Waiting", String(detail.waiting)]],
    field: h("div", {}, h("label", { class: "field" }, "Reason ", reason), h("label", { class: "field" }, "Minutes ", minutes)),
    confirm: "Pause",
    mild: true,
    done: "It is paused.",
    run: async () => {
      const settings = { reason: reason.value.trim() };
      if (minutes.value) settings.for = 60 * Number(minutes.value);
      await pause(detail, settings);
      changed();
    },
  });
  reason.focus();
}

export function askResume(detail, changed) {
  ask({
    title: `Resume ${nameOf(detail)}?`,
    text: detail.waiting > 0 ? "The first in the queue get it in the same step." : "It is granted to the next caller that asks.",
    facts: [["Paused", detail.paused?.reason ?? ""], ["Waiting", String(detail.waiting)]],
    confirm: "Resume",
    mild: true,
    done: "It is resumed.",
    run: async () => {
      await resume(detail);
      changed();
    },
  });
}

export function askNote(detail, changed) {
  const input = h("input", { type: "text", id: "act-note", maxlength: 255, value: detail.label ?? "" });
  ask({
    title: `Note on ${nameOf(detail)}`,
    text: "For people who look at it: whose it is, what it is for, where to ask. The search finds it. An empty one takes it away.",
    facts: [["Capacity", String(detail.capacity)]],
    field: h("label", { class: "field" }, "Note ", input),
    confirm: "Save",
    mild: true,
    done: "The note is saved.",
    run: async () => {
      await configure(detail.name, { capacity: detail.capacity, label: input.value.trim() });
      changed();
    },
  });
  input.focus();
  input.select();
}

// One's own claims, or those of all callers.
const mayChange = () => may("update-own") || may("revoke-any");

function nextWords(detail) {
  return detail.waiting > 0 ? "The next in the queue gets it in the same step." : "No one is waiting, so it will be free.";
}

function factsOf(detail, holder, who) {
  return [["Resource", nameOf(detail)], ["Holder", who], ["Slot", String(holder.slot)], ["Token", String(holder.token)]];
}

function ask(action) {
  running = action;
  byId("act-title").textContent = action.title;
  byId("act-text").textContent = action.text;
  byId("act-facts").replaceChildren(...action.facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  byId("act-field").replaceChildren(...(action.field ? [action.field] : []));
  byId("act-confirm").className = action.mild ? "primary" : "danger";
  byId("act-confirm").textContent = action.confirm;
  byId("act-confirm").disabled = false;
  byId("act-error").textContent = "";
  dialog.showModal();
  // The harmless choice has the focus, so that a stray Enter does nothing.
  byId("act-cancel").focus();
}

async function confirmed() {
  const action = running;
  byId("act-confirm").disabled = true;
  byId("act-error").textContent = "";
  try {
    await action.run();
    if (running === action) dialog.close(); // else another question was asked meanwhile
    announce(action.done);
  } catch (problem) {
    byId("act-error").textContent = inWords(problem);
    byId("act-confirm").disabled = false;
  }
}

function inWords(problem) {
  if (problem.status === 401) return "You need to sign in before you can do this.";
  if (problem.status === 403) return `You may not do this. ${problem.message}`;
  if (problem.status === 404) return `This address does not offer that. ${problem.message}`;
  return problem.message;
}

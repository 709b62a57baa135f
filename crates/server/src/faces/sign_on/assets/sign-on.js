// The page for people who are not let in. /v1/whoami says who its reader is and which ways to sign on there are; the token goes
// into the body of one request and nowhere else.

import { byId, setText } from "./dom.js";
import { seen } from "./names.js";

const SOURCE = {
  token: "an API token",
  oidc: "a token of the sign-on provider",
  introspection: "a token of the sign-on provider",
  proxy: "the proxy in front",
  certificate: "a client certificate",
  session: "a login with this browser",
};

const here = location.pathname + location.search;
const isLogin = location.pathname === "/login" || location.pathname === "/callback";
// After a failed step of a login its address is of no more use.
const target = isLogin ? "/" : here;
const status = Number(document.body.dataset.status);

let who = { sign_on: false };
try {
  who = await (await fetch("/v1/whoami", { cache: "no-store" })).json();
} catch {
  // The reason above stands, and trying again is all there is.
}
const said = byId("reason").textContent;
if (who.name) showDenied();
else showWays();

function showDenied() {
  // To its reader, and not about a third person.
  setText(byId("reason"), said.startsWith(`${who.name} needs `) ? said.replace(`${who.name} needs `, "You need ").concat(".") : sentence(said));
  document.title = "No access · Leasehold";
  setText(byId("title"), "You may not see this");
  byId("you").hidden = false;
  setText(byId("name"), seen(who.name));
  setText(byId("source"), SOURCE[who.source] ?? who.source);
  list(byId("groups"), who.groups);
  list(byId("actions"), who.actions);
  setText(byId("missing"), /action '([^']+)'/.exec(said)?.[1] ?? "see above");
  const groups = who.groups.length > 0 ? "one of these groups" : "a group that arrives with you";
  setText(byId("advice"), `An operator gives this right to your name or to ${groups} in a [[policy]]; 'leasehold policy explain' shows what is decided and why.`);
  // Only a session of this browser can be ended here; a proxy or a certificate has its own ways.
  byId("log-out").hidden = who.source !== "session";
}

function showWays() {
  setText(byId("reason"), said.startsWith("an anonymous caller needs ") || said === "log in first" ? "Callers sign on here before they see or change anything." : sentence(said));
  byId("token-form").hidden = !who.token_login;
  byId("provider").hidden = !who.login;
  byId("no-way").hidden = who.token_login || who.login || !who.sign_on;
  byId("provider-link").href = `/login?${new URLSearchParams({ return: target })}`;
  if (isLogin && status !== 401) setText(byId("title"), "The login did not succeed");
  if (who.token_login && !who.login) byId("token").focus();
}

function list(node, items) {
  setText(node, items.length > 0 ? items.map(seen).join(", ") : "none");
  node.classList.toggle("none", items.length === 0);
}

function sentence(text) {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

// Groups of a login by the provider are those that arrived with it: a new login asks for them again.
byId("again").addEventListener("click", () => {
  if (who.source === "session" && who.login) location.href = `/login?${new URLSearchParams({ return: target })}`;
  else location.href = target;
});

byId("log-out").addEventListener("click", async () => {
  await fetch("/logout", { method: "POST" });
  location.href = target;
});

byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = byId("sign-on");
  button.disabled = true;
  let problem = "The server does not answer.";
  try {
    const body = JSON.stringify({ token: byId("token").value.trim() });
    const response = await fetch("/login", { method: "POST", body, headers: { "content-type": "application/json" } });
    if (response.ok) {
      if (target === here) location.reload(); // with the part behind the #
      else location.replace(target);
      return;
    }
    problem = sentence((await response.json()).error ?? `the server answered ${response.status}`);
  } catch {
    // Said below.
  }
  button.disabled = false;
  setText(byId("token-error"), problem);
  byId("token").select();
});

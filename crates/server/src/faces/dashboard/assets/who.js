// The user's identity at the server, where callers sign on: the name in the bar, a way out, and which buttons are worth showing.
// Without sign-on, or on a server that does not tell, nothing of this shows and everything may be tried.

import { logOut, whoami } from "./api.js";
import { byId, setText } from "./dom.js";
import { seen } from "./names.js";

let known = { sign_on: false };

/** Asks anew: at the start, and whenever the server no longer lets us in. */
export async function learnWho() {
  try {
    known = await whoami();
  } catch {
    known = { sign_on: false };
  }
  byId("who").hidden = !known.name;
  setText(byId("who-name"), seen(known.name ?? ""));
  // Only a login of the dashboard's own can be ended here; a proxy or a certificate has its own ways.
  byId("log-out").hidden = known.source !== "session";
}

/** True if the user may do this to any resource. The server decides for each one. */
export const may = (action) => !known.sign_on || (known.actions ?? []).includes(action);

/** The beginning of the addresses of calls: ours, unless the dashboard has an address of its own. */
export const apiUrl = () => known.api_url ?? location.origin;

/** Where to sign in with a browser, null where that is not how it is done. The page itself asks for a token, and leads to the provider. */
export const signInAt = () => (known.token_login === true ? "/" : known.login === true ? "/login" : null);

byId("log-out").addEventListener("click", async () => {
  try {
    await logOut();
  } finally {
    location.reload();
  }
});

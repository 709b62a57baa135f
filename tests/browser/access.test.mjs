// For all users: axe on every view in both colours, the keyboard alone, colours that stay, and words for a closed door.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { accessibility, Cleanup, eventually, fitsWidth, isLive, openPage, row, Server, startBrowser } from "./support.mjs";

describe("a page for everybody", () => {
  let browser;
  let server;
  let empty;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    browser = await startBrowser(t);
    server = await Server.start(t, "--memory", "--grace", "300s");
    empty = await Server.start(t, "--memory");
    for (const name of ["deploy", "migrate", "report"]) await server.claim(name, "anna");
    for (const owner of ["bob", "carol"]) await server.claim("migrate", owner);
    await server.lock("nightly", "cron", "1ms");
    await server.lock("laptop", "dora", "600s");
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing serious, ${colorScheme}`, async (t) => {
      const nothing = await openPage(t, browser, empty, { colorScheme });
      await nothing.locator(".empty").waitFor();
      await accessibility(nothing, `empty, ${colorScheme}`);

      const page = await openPage(t, browser, server, { colorScheme });
      await isLive(page);
      await row(page, "nightly").getByText("In grace").waitFor();
      const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      assert.equal(background, colorScheme === "dark" ? "rgb(14, 18, 17)" : "rgb(246, 247, 246)");
      await accessibility(page, `overview, ${colorScheme}`);
      await row(page, "migrate").getByRole("link").click();
      await page.locator(".lanes .hold").waitFor();
      await page.getByText("The same as a table").click();
      await page.locator(".scroll tbody tr").first().waitFor();
      await accessibility(page, `detail, ${colorScheme}`);
      await page.getByRole("button", { name: "Revoke anna’s hold" }).click();
      await accessibility(page, `dialog, ${colorScheme}`);
      await page.keyboard.press("Escape");
      await page.setViewportSize({ width: 360, height: 740 });
      await fitsWidth(page);
      await accessibility(page, `detail on a phone, ${colorScheme}`);
    });
  }

  test("the keyboard is enough", async (t) => {
    const page = await openPage(t, browser, server);
    await isLive(page);
    await row(page, "deploy").waitFor();
    const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.id);
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Skip to the resources");
    await page.keyboard.press("/");
    await page.keyboard.type("migr");
    await eventually(async () => assert.equal(await page.locator(".rows .row").count(), 1));
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), "migrate");
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement.closest(".row")).boxShadow);
    assert.notEqual(ring, "none", "the focus can be seen");
    await page.keyboard.press("Enter");
    // The row that had the focus has the same text.
    await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.id), "detail-title"));
    assert.equal(await focused(), "migrate");
    await page.getByRole("button", { name: "Revoke anna’s hold" }).focus();
    await page.keyboard.press("Enter");
    assert.equal(await focused(), "Cancel", "the harmless choice has the focus");
    await page.keyboard.press("Escape");
    assert.ok(await page.locator("#detail").isVisible(), "Escape closes one thing at a time");
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /Revoke/);
    await page.keyboard.press("Escape");
    await page.locator("#detail").waitFor({ state: "hidden" });
    await eventually(async () => assert.equal(await focused(), "migrate"));
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await eventually(async () => assert.equal(await focused(), "pool-id"));
  });

  test("chosen colours stay", async (t) => {
    const page = await openPage(t, browser, server, { colorScheme: "light" });
    const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
    const button = page.locator("#theme");
    assert.equal(await button.getAttribute("aria-label"), "Colours: as the system");
    await button.click();
    await button.click();
    assert.equal(await scheme(), "dark");
    await page.reload();
    assert.equal(await scheme(), "dark");
    await eventually(async () => assert.equal(await button.getAttribute("aria-label"), "Colours: dark"));
  });

  test("a server that wants a name first is told in words", async (t) => {
    const page = await openPage(t, browser, server, { expected: [/401/] });
    const link = page.getByRole("link", { name: "Sign in", exact: true });
    for (const login of [true, false]) {
      await page.unroute("**/v1/**");
      await page.route("**/v1/**", (route) => route.fulfill({ status: 401, json: { error: "anonymous needs the action 'observe'" } }));
      await page.route("**/v1/whoami", (route) => route.fulfill({ json: { sign_on: true, name: null, source: null, groups: [], actions: [], login } }));
      await page.reload();
      await page.getByText("Sign in needed to see this. Anonymous needs the action 'observe'.").waitFor();
      await link.waitFor({ state: login ? "visible" : "hidden" });
      if (login) assert.equal(await link.getAttribute("href"), "/login");
      await page.unroute("**/v1/whoami");
    }
    await page.unroute("**/v1/**");
    await page.getByRole("button", { name: "Retry now" }).click();
    await isLive(page);
    await row(page, "deploy").waitFor();
  });

  test("whoever signed in is named, and sees the buttons that work", async (t) => {
    const page = await openPage(t, browser, server, { hash: "#/r/claim%3Amigrate" });
    const be = async (more) => {
      await page.unroute("**/v1/whoami");
      await page.route("**/v1/whoami", (route) => route.fulfill({ json: { sign_on: true, name: "olga", groups: [], login: true, ...more } }));
      await page.reload();
      await page.getByText("Signed in as olga").waitFor();
      await page.locator(".holders li").waitFor();
    };
    await be({ source: "session", actions: ["observe", "revoke-any"] });
    await page.getByRole("button", { name: "Revoke anna’s hold" }).waitFor();
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await accessibility(page, "signed in");
    await be({ source: "proxy", actions: ["observe"] });
    for (const name of [/^Revoke/, /^Release/, /^Take out/, "Log out"]) await page.getByRole("button", { name }).first().waitFor({ state: "hidden" });
    await page.setViewportSize({ width: 360, height: 740 });
    await fitsWidth(page);
  });

  test("a refused action is told in words", async (t) => {
    const page = await openPage(t, browser, server, { hash: "#/r/lock%3Alaptop", expected: [/403/] });
    await page.route("**/v1/admin/**", (route) => route.fulfill({ status: 403, contentType: "application/json", body: "{\"error\":\"role viewer may not revoke\"}" }));
    await page.getByRole("button", { name: "Revoke dora’s hold" }).click();
    await page.locator("#act-confirm").click();
    await page.getByText("You may not do this. Role viewer may not revoke.").waitFor();
  });
});

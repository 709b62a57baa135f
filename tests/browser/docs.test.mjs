// The page about the API, against the real binary: it shows what the document lists, leads from a borrowed lease to its return,
// and is for all users, like the dashboard.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { accessibility, Cleanup, eventually, openPage, Server, startBrowser } from "./support.mjs";

describe("the page about the API", () => {
  let browser;
  let server;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    browser = await startBrowser(t);
    server = await Server.start(t, "--memory");
  });

  const open = async (t, options = {}) => {
    const page = await openPage(t, browser, server, { hash: "docs", ...options });
    await page.locator("#borrow").waitFor();
    return page;
  };
  const tryForm = async (page, id) => {
    await page.locator(`#${id} .try > summary`).click();
    return page.locator(`#${id} .try-form`);
  };

  test("every operation of the document is there", async (t) => {
    const page = await open(t);
    const { paths } = await server.call("GET", "/openapi.json");
    const listed = Object.values(paths).flatMap(({ "x-additionalOperations": more, ...item }) => Object.values({ ...item, ...more }).map(({ operationId }) => operationId));
    const shown = await page.locator(".operation").evaluateAll((all) => all.map(({ id }) => id));
    assert.deepEqual(shown.toSorted(), listed.toSorted());
    assert.equal(await page.locator("#contents li").count(), listed.length);
    assert.equal(await page.locator("main").getByText("[object").count(), 0, "nothing is shown as an object");
  });

  test("a slot is borrowed and given back from the page", async (t) => {
    const page = await open(t);
    const put = await tryForm(page, "putPool");
    await put.getByRole("button", { name: "Send PUT" }).click();
    await put.getByText("200", { exact: true }).waitFor();
    await put.getByRole("button", { name: "Borrow a slot" }).click();

    const borrow = page.locator("#borrow .try-form");
    await borrow.getByRole("button", { name: "Send POST" }).click();
    await borrow.locator(".outcome").waitFor();
    assert.match(await borrow.locator(".outcome").textContent(), /^200.*in [\d.]+ ms$/);
    const lease = JSON.parse(await borrow.locator(".result pre").first().textContent());
    assert.equal(lease.position, 0);
    await borrow.getByText("Headers", { exact: true }).click();
    await borrow.getByText("leasehold-position:").waitFor();
    await borrow.getByRole("button", { name: "Give a slot back" }).click();

    const back = page.locator("#returnLease .try-form");
    assert.deepEqual(JSON.parse(await back.locator("textarea").inputValue()), { lease: lease.lease });
    await back.getByRole("button", { name: "Send POST" }).click();
    await back.getByText("\"returned\": true").waitFor();
  });

  test("a mistake is answered in words", async (t) => {
    const page = await open(t, { expected: [/400/] });
    const form = await tryForm(page, "acquireLock");
    await form.getByLabel("ttl").fill("soon");
    await form.getByRole("button", { name: "Send POST" }).click();
    await form.getByText("invalid ttl format").waitFor();
    await form.getByText("As curl").click();
    assert.match(await form.locator("details pre").last().textContent(), /^curl -X POST '.*\/lock\?client=laptop-a&ttl=soon'$/);
  });

  test("a token goes with the calls and nowhere else", async (t) => {
    const page = await open(t);
    await page.getByText("Sign on", { exact: true }).click();
    await page.getByLabel("Token for the forms on this page").fill("lh_secret");
    const form = await tryForm(page, "showLock");
    const [request] = await Promise.all([page.waitForRequest("**/lock"), form.getByRole("button", { name: "Send GET" }).click()]);
    assert.equal(request.headers().authorization, "Bearer lh_secret");
    await form.locator(".outcome").waitFor();
    assert.equal(await form.getByText("lh_secret").count(), 0, "it is not shown in the curl line");
    assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + location), `{}${page.url()}`);
  });

  test("operations are found by a word, and an address leads to one", async (t) => {
    const page = await open(t, { hash: "docs#showLock" });
    await eventually(async () => {
      const top = await page.locator("#showLock").evaluate((each) => each.getBoundingClientRect().top);
      assert.ok(top >= 0 && top < 400, `it is ${top} px down`);
    });
    await page.keyboard.press("/");
    await page.keyboard.type("no such thing");
    await eventually(async () => assert.equal(await page.locator("#contents li:visible").count(), 0));
    await page.locator("#search").fill("delete lock");
    await eventually(async () => assert.deepEqual(await page.locator("#contents li:visible").allTextContents(), ["DELETELet go of the lock, or leave its queue", "DELETEGrant the lock again"]));
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing serious, ${colorScheme}`, async (t) => {
      const page = await open(t, { colorScheme });
      const form = await tryForm(page, "showLock");
      await form.getByRole("button", { name: "Send GET" }).click();
      await form.locator(".outcome").waitFor();
      await page.locator("#createClaim .answer > summary").first().click();
      await accessibility(page, `docs, ${colorScheme}`);
      await page.setViewportSize({ width: 360, height: 740 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `the page is ${wide} px too wide`);
      await accessibility(page, `docs on a phone, ${colorScheme}`);
    });
  }

  test("on a phone the page stays where it is read", async (t) => {
    const page = await open(t, { viewport: { width: 360, height: 740 } });
    await page.locator("#releaseLock").evaluate((each) => each.scrollIntoView());
    const before_px = await page.evaluate(() => scrollY);
    await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
    await page.locator("#contents a[aria-current][href='#releaseLock']").waitFor({ state: "attached" });
    assert.ok(Math.abs(await page.evaluate(() => scrollY) - before_px) < 5, "nothing pulled it away");
  });
});

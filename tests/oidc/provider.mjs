// A real OpenID provider (oidc-provider) for the tests of sign-on. It says where it listens on its first line of output, and
// does what a provider does: issues JWTs and opaque tokens, publishes keys, answers introspection, lets people log in.
//
//   node provider.mjs [port]
//   POST /test/rotate   new keys from here on; the old ones are no longer published
//
// Resources: urn:leasehold:RS256 and its like give a JWT signed that way for the audience "leasehold"; urn:opaque an opaque token.
import http from "node:http";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { Provider } from "oidc-provider";

const kinds = {
  RS256: ["rsa", { modulusLength: 2048 }],
  PS256: ["rsa", { modulusLength: 2048 }],
  ES256: ["ec", { namedCurve: "P-256" }],
  ES384: ["ec", { namedCurve: "P-384" }],
  EdDSA: ["ed25519", {}],
};

function newKeys() {
  return Object.entries(kinds).map(([alg, [type, options]]) => ({
    ...generateKeyPairSync(type, options).privateKey.export({ format: "jwk" }),
    alg,
    use: "sig",
    kid: `${alg}-${randomBytes(4).toString("hex")}`,
  }));
}

const groups = { ci: ["builders"], stranger: [], olga: ["operators"], sam: ["staff"] };

function provider(issuer, redirects) {
  return new Provider(issuer, {
    jwks: { keys: newKeys() },
    cookies: { keys: [randomBytes(16).toString("hex")] },
    enabledJWA: { idTokenSigningAlgValues: Object.keys(kinds) },
    clients: [
      ...["ci", "stranger"].map((client_id) => ({
        client_id,
        client_secret: `secret of ${client_id}`,
        token_endpoint_auth_method: "client_secret_post",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      })),
      { client_id: "asker", client_secret: "may: ask+about tokens", grant_types: [], redirect_uris: [], response_types: [] },
      {
        client_id: "dashboard",
        client_secret: "secret of the dashboard",
        redirect_uris: redirects,
        post_logout_redirect_uris: [],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    scopes: ["openid", "profile"],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
    }),
    extraTokenClaims: (_, token) => ({ groups: groups[token.clientId] ?? [] }),
    ttl: { ClientCredentials: 600, AccessToken: 600, IdToken: 600, Grant: 3600, Session: 3600, Interaction: 600 },
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => {
          const alg = resource.split(":")[2];
          return resource === "urn:opaque"
            ? { scope: "read", audience: "leasehold", accessTokenFormat: "opaque" }
            : { scope: "read", audience: "leasehold", accessTokenFormat: "jwt", jwt: { sign: { alg } } };
        },
      },
    },
  });
}

let current;
const redirects = (process.env.REDIRECT_URIS ?? "http://127.0.0.1:1/callback").split(" ");
const server = http.createServer((request, response) => {
  if (request.method === "POST" && request.url === "/test/rotate") {
    current = provider(issuer(), redirects).callback();
    response.end();
    return;
  }
  current(request, response);
});
const issuer = () => `http://127.0.0.1:${server.address().port}`;
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  current = provider(issuer(), redirects).callback();
  console.log(issuer());
});

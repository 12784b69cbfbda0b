// @ts-nocheck: the provider has no types.
// An OpenID Connect provider in a process of its own: `node oidc-provider.mjs <client id> <secret> <redirect URL>`.
// Its login page accepts any name; the groups of an operator are the words in a second field.
import { Provider } from 'oidc-provider';

const [, , clientId, clientSecret, redirectUrl] = process.argv;
/** @type {Map<string, string[]>} */
const groupsOf = new Map();

/** @param {number} port */
function createProvider(port) {
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients: [
      { client_id: String(clientId), client_secret: String(clientSecret), redirect_uris: [String(redirectUrl)] },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username', 'groups'] },
    pkce: { required: () => true },
    cookies: { keys: ['a key of the tests'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    findAccount: async (_context, id) => ({
      accountId: id,
      claims: async () => ({
        sub: id,
        email: `${id}@shop.example`,
        email_verified: !id.startsWith('unverified'),
        preferred_username: id,
        groups: groupsOf.get(id) ?? [],
      }),
    }),
  });
  provider.use(async (context, next) => {
    const { uid } = /^\/interaction\/(?<uid>[\w-]+)$/.exec(context.path)?.groups ?? {};
    if (!uid) return next();
    if (context.method === 'GET') {
      context.type = 'html';
      context.body = `<!doctype html><title>Provider</title><form method="post"><label>Name <input name="name"></label>
        <label>Groups <input name="groups"></label><button>Continue</button><button name="cancel" value="1">Cancel</button></form>`;
      return;
    }
    const chunks = [];
    for await (const chunk of context.req) chunks.push(chunk);
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    if (form.get('cancel')) {
      const result = { error: 'access_denied' };
      return provider.interactionFinished(context.req, context.res, result);
    }
    const name = String(form.get('name'));
    groupsOf.set(name, String(form.get('groups')).split(' ').filter(Boolean));
    const grant = new provider.Grant({ accountId: name, clientId: String(clientId) });
    grant.addOIDCScope('openid email profile');
    const result = { login: { accountId: name, remember: false }, consent: { grantId: await grant.save() } };
    await provider.interactionFinished(context.req, context.res, result);
  });
  return provider;
}

// The issuer is part of the provider, so its port must be known before it is made.
const { createServer } = await import('node:http');
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.on('request', createProvider(port).callback());
  process.stdout.write(`http://127.0.0.1:${port}\n`);
});

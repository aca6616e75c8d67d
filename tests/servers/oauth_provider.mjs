// A real authorisation server (oidc-provider) whose users are driven over HTTP instead of by a browser.
//
//   node oauth_provider.mjs NODE_MODULES '{"...": options}'
//
// Prints {"issuer": ...} on one line when it listens. A login page is JSON; it is answered by POST to
// …/login?account=NAME, …/confirm or …/abort. /stats tells what token endpoints were asked for.

import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

// oidc-provider is made for Node.js 22, which has this.
URL.parse ??= (text, base) => {
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
};
console.warn = () => {};
console.info = () => {};

const [modules, given] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
const options = { refreshTokens: true, registration: true, device: true, revocation: true, ...JSON.parse(given ?? '{}') };

const server = createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const forUsers = {
  grant_types: ['authorization_code', 'refresh_token', DEVICE],
  response_types: ['code'],
  redirect_uris: ['http://127.0.0.1/callback'],
  application_type: 'native',
};
const document = {
  ...forUsers,
  client_id: 'https://spindle.example/client.json',
  client_name: 'Spindle',
  token_endpoint_auth_method: 'none',
};

const provider = new Provider(issuer, {
  clients: [
    { ...forUsers, client_id: 'public', token_endpoint_auth_method: 'none' },
    { ...forUsers, client_id: 'basic', client_secret: 'secret of basic: +%', token_endpoint_auth_method: 'client_secret_basic' },
    { ...forUsers, client_id: 'post', client_secret: 'secret-of-post-client', token_endpoint_auth_method: 'client_secret_post' },
    {
      client_id: 'service', client_secret: 'secret-of-service-client', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'], token_endpoint_auth_method: 'client_secret_basic',
    },
    {
      client_id: 'mcp-server', client_secret: 'secret-of-mcp-server', redirect_uris: [], response_types: [],
      grant_types: [], token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  fetch: async (url, rest) => (String(url) === document.client_id
    ? new Response(JSON.stringify(document), { headers: { 'content-type': 'application/json' } })
    : fetch(url, rest)),
  findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access', 'read', 'write'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => options.refreshTokens && client.grantTypeAllowed('refresh_token'),
  ttl: {
    AccessToken: options.lifetime ?? 3600, ClientCredentials: 3600, RefreshToken: 86400, Grant: 86400, Session: 86400,
    Interaction: 600, AuthorizationCode: 60, DeviceCode: 600, IdToken: 3600,
  },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ['only in tests'] },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: options.revocation, allowedPolicy: () => true },
    registration: { enabled: options.registration },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    deviceFlow: {
      enabled: options.device,
      userCodeInputSource: async (ctx, form) => { ctx.type = 'json'; ctx.body = { form }; },
      userCodeConfirmSource: async (ctx, form) => { ctx.type = 'json'; ctx.body = { form }; },
      successSource: async (ctx) => { ctx.type = 'json'; ctx.body = { done: true }; },
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx, _client, oneOf) => oneOf,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: 'read write', audience: resource, accessTokenFormat: 'opaque', accessTokenTTL: options.lifetime ?? 3600,
      }),
    },
  },
});

const stats = {};
const count = (name) => { stats[name] = (stats[name] ?? 0) + 1; };
provider.on('grant.success', (ctx) => count(ctx.oidc.params.grant_type));
provider.on('grant.error', (ctx, error) => count(`${ctx.oidc.params?.grant_type} ${error.error}`));
provider.on('registration_create.success', () => count('registration'));

async function interact(request, response, url) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session, grantId } = details;
  const action = url.pathname.split('/')[3];
  if (action === 'login') {
    await provider.interactionFinished(request, response, { login: { accountId: url.searchParams.get('account') } });
  } else if (action === 'abort') {
    await provider.interactionFinished(request, response, {
      error: 'access_denied', error_description: 'the user said no',
    }, { mergeWithLastSubmission: false });
  } else if (action === 'confirm') {
    const grant = (grantId && await provider.Grant.find(grantId))
      || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    const { missingOIDCScope, missingOIDCClaims, missingResourceScopes } = prompt.details;
    if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
    if (missingOIDCClaims) grant.addOIDCClaims(missingOIDCClaims);
    for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
      grant.addResourceScope(resource, scopes.join(' '));
    }
    await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
  } else {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ prompt: prompt.name, scope: params.scope, client: params.client_id }));
  }
}

async function control(response, url) {
  if (url.pathname === '/forget') {
    await (await provider.Client.find(url.searchParams.get('client')))?.destroy?.();
    await provider.Client.adapter.destroy(url.searchParams.get('client'));
  }
  if (url.pathname === '/end') await (await provider.AccessToken.find(url.searchParams.get('token'))).destroy();
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(stats));
}

const answer = provider.callback();
server.on('request', (request, response) => {
  const url = new URL(request.url, issuer);
  const failed = (error) => { response.statusCode = 500; response.end(String(error?.stack)); };
  if (url.pathname.startsWith('/interaction/')) interact(request, response, url).catch(failed);
  else if (['/stats', '/forget', '/end'].includes(url.pathname)) control(response, url).catch(failed);
  else answer(request, response);
});
console.log(JSON.stringify({ issuer }));

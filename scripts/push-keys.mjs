// `npm run push:keys`: makes a pair of keys for Web Push and prints it as settings.
import { createECDH } from 'node:crypto';
import { parseArgs } from 'node:util';

const USAGE = `usage: npm run --silent push:keys -- [--subject mailto:ops@shop.example]

Prints VAPID_SUBJECT, VAPID_PUBLIC_KEY and VAPID_PRIVATE_KEY for the environment of the API and the workers.
Keep the pair: with another one, browsers lose their subscriptions.
`;

const { values } = parseArgs({
  options: { subject: { type: 'string', default: 'mailto:ops@shop.example' }, help: { type: 'boolean' } },
});
if (values.help) process.stdout.write(USAGE);
else {
  const pair = createECDH('prime256v1');
  pair.generateKeys();
  // Without its leading zeros, a key would be too short.
  const secret = Buffer.alloc(32);
  const bytes = pair.getPrivateKey();
  bytes.copy(secret, 32 - bytes.length);
  process.stdout.write(
    [
      `VAPID_SUBJECT=${values.subject}`,
      `VAPID_PUBLIC_KEY=${pair.getPublicKey('base64url')}`,
      `VAPID_PRIVATE_KEY=${secret.toString('base64url')}`,
      '',
    ].join('\n'),
  );
}

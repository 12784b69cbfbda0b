// `npm run reshard`: changes the number of shards of Redis, or moves a campaign to another shard (worker/reshard).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run reshard -- --campaign <product_id> --to-shard <n>
       npm run reshard -- --to <number of shards>

With --campaign: moves one campaign to another shard while the sale goes on. Campaigns of its old and its new shard get 503
for a moment, those of the other shards do not.

With --to: changes the number of shards. Stop all workers first; the APIs reply 503 from the moment at which the command
runs. Then start the workers and the APIs with the new SHARDS, and with another REDIS_URL if Redis changes as well. The
workers fill the new shards from Postgres, about ten seconds for 200,000 people.

Both persist the journal before anything moves, so nothing is lost. An interrupted command can be repeated. REDIS_URL and
DATABASE_URL name the engines; without them those of \`npm start\`. Exit code 0 = done, 1 = stopped, 2 = not begun.
`;

runServiceCommand('worker/reshard-command.js', USAGE);

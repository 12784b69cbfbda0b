// `npm run ledger -- <product_id>`: compares Redis, journal and Postgres (shared/ledger).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run ledger -- <product_id>

Prints one JSON object: {confirmed, persisted, lost, duplicated, over_cap, drift, …}. Exit code 0 when the last four are 0, 1 when
one is not, 2 when nothing could be compared. REDIS_URL and DATABASE_URL name the engines; without them those of \`npm start\`.
`;

runServiceCommand('shared/ledger/main.js', USAGE);

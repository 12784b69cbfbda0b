// `npm run partitions`: the partitions of the table redemptions (shared/partitions).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run partitions                                    lists the partitions
       npm run partitions -- add <product_id>               gives a campaign without reservations its own partition
       npm run partitions -- drop <product_id> [--yes]      drops the reservations of a closed campaign

A campaign with its own partition can be dropped in a second, however many reservations it has. Without --yes, drop prints
what it would do. It refuses campaigns that are not closed and archived, or that have events to send. docs/postgres.md.

Exit code 0 when done, 1 when refused, 2 when it failed. REDIS_URL and DATABASE_URL name the engines; without them those of
\`npm start\`.
`;

runServiceCommand('shared/partitions/main.js', USAGE, ([action = 'list', product, ...flags]) =>
  action === 'add' || action === 'drop'
    ? product !== undefined && flags.every((flag) => action === 'drop' && flag === '--yes')
    : action === 'list' && product === undefined,
);

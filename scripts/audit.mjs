// `npm run audit`: reads and verifies the audit log and the history of reservations (shared/audit).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run audit -- <product_id> [--head <head>]…   what was done to a campaign, and whether it was changed later
       npm run audit [-- --head <head>…]                verifies everything: all campaigns, and what concerns none

Entries are chained: each contains a digest of the one before. The command recomputes the chains and names the first entry
that was changed, removed or made up by hand. It prints the head of each chain.

A person with all rights over the database can compute a chain anew. So keep the heads where that person has no rights:
with --head, which may be repeated, the command shows that nothing up to there was changed or removed. docs/operators.md.

Exit code 0 when the chains are whole and have the heads, 1 when not, 2 when it failed. DATABASE_URL names the database;
without it that of \`npm start\`.
`;

runServiceCommand('shared/audit/main.js', USAGE, (args) => {
  const heads = args.filter((_, i) => args[i - 1] === '--head');
  const others = args.filter((arg, i) => arg !== '--head' && args[i - 1] !== '--head');
  const marks = args.filter((arg) => arg === '--head').length;
  return (
    heads.length === marks &&
    heads.every((head) => /^[0-9a-f]{64}$/.test(head)) &&
    others.length <= 1 &&
    !others[0]?.startsWith('--')
  );
});

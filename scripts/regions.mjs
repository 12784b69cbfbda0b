// `npm run regions`: which region this installation is, and who owns it (shared/regions).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run regions                         shows this region, whether the others can be called, and open transfers
       npm run regions -- join                 makes this installation the region that REGION names, once
       npm run regions -- failover NAME        makes this installation the owner of its region NAME instead of a lost one

join gives the campaigns of this installation numbers that no other region has. An installation that has campaigns already
must be the first of REGIONS.

failover is for an installation that was restored from the database of a lost region. Stop the lost installation first. The
command refuses while anything answers at the URL of the region in REGIONS, or while another region reaches it. Then it
raises the epoch of the region. An old installation that starts again serves nothing until another region has replied, and
refuses to serve once it learns of the new epoch. docs/regions.md has the steps.

Exit code 0 when done, 1 when refused, 2 when it failed. REGION, REGIONS and REGION_KEYS are read as by the API; DATABASE_URL
names Postgres, without it that of \`npm start\`.
`;

runServiceCommand('shared/regions/main.js', USAGE);

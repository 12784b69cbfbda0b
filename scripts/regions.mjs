// `npm run regions`: which region this installation is, and who owns it (shared/regions).
import { runServiceCommand } from './service-command.mjs';

const USAGE = `usage: npm run regions                         shows this region, whether the others can be called, and open transfers
       npm run regions -- join                 makes this installation the region that REGION names, once
       npm run regions -- take-over [--yes]    makes this installation the owner of its region instead of a lost one

join gives the campaigns of this installation numbers that no other region has. An installation that has campaigns already
must be the first of REGIONS.

take-over is for an installation that was restored from the database of a lost region. It raises the epoch of the region.
The old installation refuses to serve once it learns of that. It cannot learn of it while it is cut off from every other
region: stop it first, or make sure that no client reaches it. Without --yes the command prints what it would do.
docs/regions.md has the steps.

Exit code 0 when done, 1 when refused, 2 when it failed. REGION, REGIONS and REGION_KEYS are read as by the API; DATABASE_URL
names Postgres, without it that of \`npm start\`.
`;

runServiceCommand('shared/regions/main.js', USAGE);

import { expect, test } from '@jest/globals';
import { importsOf, isOurs, placeOf, type Source, sourcesIn } from './sources.js';

/**
 * Who may import what (DESIGN, "May import"). A place may always import itself; packages are not restricted but where
 * it says so.
 */
const BASIS = ['shared/domain', 'shared/contracts', 'shared/errors'];
const STORES = ['shared/redis', 'shared/sale', 'shared/postgres', 'shared/projection'];
const SHARED_RULES: Record<string, readonly string[]> = {
  'shared/domain': [],
  'shared/calendar': ['shared/domain'],
  'shared/contracts': ['shared/domain'],
  'shared/errors': ['shared/domain'],
  // REDIS_URL is read by the same function as everywhere.
  'shared/config': ['shared/domain', 'shared/redis/redis-target'],
  // The platform: connections, scripts, journal. The campaigns and their records are in shared/sale. Its timers wake the
  // process together with those of other parts.
  'shared/redis': [...BASIS, 'shared/observability/shared-interval'],
  'shared/sale': [...BASIS, 'shared/redis'],
  'shared/postgres': BASIS,
  // Journal entries as rows and events.
  'shared/projection': [...BASIS, 'shared/postgres'],
  'shared/observability': BASIS,
  // A campaign as both engines have it at one position of the journal, and which records of Redis follow from rows.
  'shared/image': [...BASIS, ...STORES],
  // Who comes back to a campaign that is over: found in Postgres, put into Redis.
  'shared/archive': [...BASIS, 'shared/image', 'shared/sale', 'shared/postgres'],
  // Whether Redis continues the history that Postgres knows.
  'shared/history': [...BASIS, 'shared/observability', 'shared/redis', 'shared/sale', 'shared/postgres'],
  // What follows from the events of payment providers.
  'shared/payments': [...BASIS, 'shared/sale', 'shared/postgres', 'shared/projection'],
  // What a process or a command has for each shard of Redis.
  'shared/buckets': [...BASIS, 'shared/sale', 'shared/postgres'],
  'shared/shards': [...BASIS, 'shared/config', 'shared/observability', 'shared/history', ...STORES],
  // The connections of one process.
  'shared/datastores': [...BASIS, 'shared/config', 'shared/observability', 'shared/redis', 'shared/postgres'],
  // How an event is signed and sent.
  'shared/webhooks': BASIS,
  // The words of the sale page, which the server renders as well.
  'shared/sale-page': ['shared/domain'],
  // BullMQ keeps its keys in the same Redis, so their prefix stands with all the others.
  'shared/queues': [...BASIS, 'shared/redis/keys'],
};
/** Packages that a place may import; the others may import any. */
const PACKAGES: Record<string, readonly string[]> = {
  'shared/domain': ['uuidv7'],
  'shared/calendar': ['temporal-polyfill'],
  'shared/contracts': ['zod'],
  'shared/errors': ['zod'],
};
const ENTRY_POINTS = ['shared/config', 'shared/observability'];

/** Files of a process beside its features, and what of the process they may import; the composition knows all of it. */
const OF_PROCESS: Record<string, readonly string[]> = {
  'api/core': [],
  'api/servers': ['api/core', 'api/http'],
  'worker/core': [],
  'worker/claim-erasure': ['worker/core'],
  'worker/queue-upkeep': ['worker/core', 'worker/sweeps'],
  'worker/queue-workers': ['worker/core', 'worker/processors', 'worker/persist', 'worker/sweeps'],
};

/**
 * The commands of operators, and which parts of other commands and of processes they may import; each also has all of
 * `shared`, and a folder of its name.
 */
const OF_COMMANDS: Record<string, readonly string[]> = {
  'commands/command': [],
  'commands/command-shards': [],
  'commands/audit': [],
  'commands/backup': ['commands/command-shards', 'commands/ledger', 'commands/reconcile/report'],
  'commands/ledger': ['commands/command-shards', 'commands/command-regions'],
  'commands/partitions': ['commands/command-shards'],
  'commands/reconcile': ['commands/command-shards', 'commands/ledger'],
  'commands/command-regions': [],
  'commands/regions': ['commands/command-regions'],
  // A worker that recovers shards on request.
  'commands/reshard': ['worker/core', 'worker/persist', 'worker/recovery', 'worker/reshard'],
  'commands/restore': ['commands/backup', 'commands/reconcile'],
};

/** The guards' folders: each may import those before it. */
const GUARDS = ['caller', 'limits', 'attestation', 'abuse', 'auth'];

function upwardAmongGuards(path: string, imported: string): string | null {
  if (path === 'api/guards/guards.module.ts') return null;
  const [from, to] = [path, imported].map((one) => GUARDS.indexOf(one.split('/')[2] ?? ''));
  return from !== undefined && to !== undefined && to !== -1 && to <= from ? null : 'a guard of a later folder';
}

/** Why a file may not import something; null when it may. */
/** What `npm run migrate` needs. */
const RUNS_MIGRATIONS = [
  ...['shared/postgres/migrate', 'shared/domain/format', 'shared/errors/faults', 'shared/config/config'],
  'shared/redis/require-redis',
];

function violation(path: string, imported: string): string | null {
  const place = placeOf(path);
  if (!isOurs(imported)) {
    const allowed = PACKAGES[place];
    return !allowed || imported.startsWith('node:') || allowed.includes(imported)
      ? null
      : 'a package that is not for this place';
  }
  const target = placeOf(imported);
  if (target === place && place !== 'api/guards') return null;
  const [process] = place.split('/');
  const among = (places: readonly string[]) => places.some((one) => target === one || imported === one);
  if (process === 'shared') return among(SHARED_RULES[place] ?? []) ? null : `not from ${place}`;
  if (process === 'commands')
    return target.startsWith('shared/') || target === 'commands/command' || among(OF_COMMANDS[place] ?? [])
      ? null
      : `not from ${place}`;
  if (place === 'migrations/main') return RUNS_MIGRATIONS.includes(imported) ? null : 'migrations stand for themselves';
  if (process === 'migrations')
    return target === 'migrations/schema' || imported === 'shared/domain/format'
      ? null
      : 'migrations stand for themselves';
  if (place === `${process}/main`) {
    return target === `${process}/composition` || among(ENTRY_POINTS)
      ? null
      : 'main starts, the composition knows the rest';
  }
  if (target.startsWith('shared/')) return null;
  if (!target.startsWith(`${process}/`)) return 'another process';
  if (place === `${process}/composition` || place === 'worker/processors') return null;
  if (place in OF_PROCESS) return OF_PROCESS[place]?.includes(target) ? null : 'only what it starts';
  if (target === `${process}/core` && path.endsWith('.module.ts')) return null;
  if (place === 'api/http') return 'everything stands on http';
  if (place === 'api/guards') {
    if (target === 'api/http') return null;
    return target === 'api/guards' ? upwardAmongGuards(path, imported) : 'guards know no feature';
  }
  // The one engine that checkout and coupons claim by; it has no route of its own.
  const base = ['api/http', 'api/guards', ...(place === 'api/claim' ? [] : ['api/claim'])];
  return base.includes(target) ? null : 'another feature';
}

function violationsIn(sources: readonly Source[]): string[] {
  return sources.flatMap((source) =>
    importsOf(source).flatMap((imported) => {
      const why = violation(source.path, imported);
      return why ? [`${source.path} imports ${imported}: ${why}`] : [];
    }),
  );
}

const sources = sourcesIn(['api', 'worker', 'commands', 'shared', 'migrations']);
const places = [...new Set(sources.map(({ path }) => placeOf(path)))].filter(
  (place) => !place.startsWith('migrations/0'),
);

for (const place of places) {
  test(`${place} imports only what it may`, () => {
    expect(violationsIn(sources.filter(({ path }) => placeOf(path) === place))).toEqual([]);
  });
}

test('migrations import nothing of ours but their parts and the number of the formats', () => {
  expect(violationsIn(sources.filter(({ path }) => /^migrations\/\d/.test(path)))).toEqual([]);
});

test('nothing that is shipped imports tests, scripts or files outside of the project', () => {
  const allowed = /^(api|worker|commands|shared|migrations)\//;
  const wrong = sources.flatMap((source) =>
    importsOf(source)
      .filter((imported) => imported.startsWith('..') || (isOurs(imported) && !allowed.test(imported)))
      .map((imported) => `${source.path} imports ${imported}`),
  );
  expect(wrong).toEqual([]);
});

test('shared has no entry point: what a person starts is in commands, scripts or a process', () => {
  expect(sources.filter(({ path, text }) => path.startsWith('shared/') && /\bprocess\.argv\b/.test(text))).toEqual([]);
});

/** Half a second of CPU time at each start, for what most installations do not use. */
const LOADED_LATE =
  /^import (?!type\b)[^;]*?\bfrom '(node-app-attest|@bull-board\/[^']+|stripe|web-push|pino-pretty)'/gm;
const loadedEarly = ({ path, text }: Source) => [...text.matchAll(LOADED_LATE)].map(([, name]) => `${path}: ${name}`);

test('a start loads no package that most installations never use', () => {
  expect(sources.flatMap(loadedEarly)).toEqual([]);
  const both = "import type Stripe from 'stripe';\nimport { verifyAttestation } from 'node-app-attest';";
  expect(loadedEarly({ path: 'a.ts', text: both })).toEqual(['a.ts: node-app-attest']);
});

/** Files of `shared` that one feature alone imports, and why they stay. */
const OF_ONE_FEATURE: Record<string, string> = {
  'shared/contracts/notifications': 'scripts publish them',
  'shared/postgres/user-export': 'it lists the same tables as the erasure of a user',
  'shared/sale/sale-scripts': 'the list of all scripts',
};

test('what one feature alone uses is in its folder', () => {
  const importers = new Map<string, Set<string>>();
  for (const source of [...sources, ...sourcesIn(['client', 'examples', 'pages', 'torture'])])
    for (const imported of importsOf(source).filter((name) => name.startsWith('shared/')))
      importers.set(imported, (importers.get(imported) ?? new Set()).add(placeOf(source.path)));
  const isFeature = (place: string) => /^(api|worker|commands)\/[^/]+$/.test(place);
  const found = [...importers].filter(([, by]) => by.size === 1 && [...by].every(isFeature)).map(([path]) => path);
  const ofProcess = /^(api|worker)\/(core|composition|main|servers|processors|queue-\w+|claim-erasure)$/;
  const elsewhere = found.filter((path) => ![...(importers.get(path) ?? [])].every((place) => ofProcess.test(place)));
  expect(elsewhere.toSorted()).toEqual(Object.keys(OF_ONE_FEATURE));
});

test('the client stands on one library, its hook on React, pages on it, the phase of a sale, its words, the roles of operators, colours, money and one more library', () => {
  const allowed: Record<string, RegExp> = {
    client: /^(client\/|@noble\/hashes\/sha2\.js$|react$)/,
    pages:
      /^(client\/(attempt|countdown|sale)|pages\/|shared\/domain\/(colour|money|phase|role)$|shared\/sale-page\/|uplot$)/,
  };
  const wrong = Object.entries(allowed).flatMap(([folder, pattern]) =>
    sourcesIn([folder])
      .filter(({ path }) => !path.startsWith('client/dist/'))
      .flatMap((source) => importsOf(source).filter((imported) => !pattern.test(imported))),
  );
  expect(wrong).toEqual([]);
});

const REFUSED: [string, string][] = [
  ['shared/domain/ids.ts', "import { z } from 'zod';"],
  ['shared/domain/ids.ts', "import type { Row } from '../postgres/pool.js';"],
  ['shared/errors/faults.ts', "import { keys } from '../redis/keys.js';"],
  ['shared/redis/journal.ts', "import { Database } from '../postgres/pool.js';"],
  ['shared/sale/scripts/line.ts', "export { LIMITS } from '../../config/limits.js';"],
  ['shared/postgres/pool.ts', "import {\n  startApi,\n} from '../../api/composition.js';"],
  ['shared/queues/queues.ts', "import { Journal } from '../redis/journal.js';"],
  ['api/checkout/checkout.ts', "import { paymentRoutes } from '../payment/payment.route.js';"],
  ['api/checkout/checkout.ts', "import '../composition.js';"],
  ['api/checkout/checkout.ts', "const later = () => import('../../worker/persist/persist.js');"],
  ['api/http/app.ts', "import { Tickets } from '../guards/ticket.js';"],
  ['api/guards/limits/quotas.ts', "import { Bans } from '../abuse/bans.js';"],
  ['shared/redis/journal.ts', "import { Recall } from '../sale/recall.js';"],
  ['api/guards/auth/ticket.ts', "import { Checkout } from '../checkout/checkout.js';"],
  ['api/checkout/checkout.ts', "import type { Core } from '../core.js';"],
  ['api/checkout/checkout.module.ts', "import { Redemption } from '../coupons/redemption.js';"],
  ['api/checkout/checkout.module.ts', "import { start } from '../composition.js';"],
  ['api/guards/limits/limits.module.ts', "import type { Abuse } from '../abuse/abuse.module.js';"],
  ['api/core.ts', "import { Tickets } from './guards/auth/ticket.js';"],
  ['worker/job-workers.ts', "import { Persist } from './persist/persist.js';"],
  ['api/main.ts', "import { Journal } from '../shared/redis/journal.js';"],
  ['api/composition.ts', "import { Persist } from '../worker/persist/persist.js';"],
  ['worker/persist/persist.ts', "import { keepSchedule } from '../schedule/schedule.js';"],
  ['worker/persist/persist.ts', "import { retryAfter } from '../../api/http/respond.js';"],
  ['worker/reconcile/reconcile.ts', "import { restoreTogether } from '../../commands/reconcile/restore.js';"],
  ['commands/ledger.ts', "import { persistModule } from '../worker/persist/persist.module.js';"],
  ['commands/audit.ts', "import { ledgerDeps } from './ledger/ledger-deps.js';"],
  ['migrations/0001_create_schema.ts', "import { keys } from '../shared/redis/keys.js';"],
];
for (const [path, text] of REFUSED) {
  test(`the rule refuses in ${path}: ${text.replaceAll('\n', ' ')}`, () => {
    expect(violationsIn([{ path, text }]).length).toBe(1);
  });
}

test('the rule does not mind what a comment or a string says', () => {
  const text =
    "// import { x } from '../payment/x.js';\n/* import '../payment/y.js' */\nconst s = 'import z from nowhere';";
  expect(importsOf({ path: 'api/checkout/checkout.ts', text })).toEqual([]);
});

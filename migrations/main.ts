import { migrateToLatest } from '../shared/postgres/migrate.js';

/** `npm run migrate`: brings DATABASE_URL to the newest schema. Two at once wait for each other. */
const url = process.env.DATABASE_URL;
if (!url) {
  process.stderr.write('DATABASE_URL is missing: the Postgres database to migrate, as postgres://…\n');
  process.exit(1);
}
try {
  const applied = await migrateToLatest(url);
  process.stdout.write(applied.length ? `applied ${applied.join(', ')}\n` : 'the schema is up to date\n');
} catch (error) {
  process.stderr.write(`the migration failed: ${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

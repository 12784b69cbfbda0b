import pg from 'pg';

const MIGRATE = new URL('../../dist/shared/postgres/migrate.js', import.meta.url);

/**
 * Once before all tests: a migrated database that every test file clones. Plain JavaScript, since Jest loads it as it
 * is.
 */
export default async function globalSetup() {
  // `npm run check` runs the tests that need no engine.
  if (process.env.DOORBUSTER_TEST_NO_ENGINES) return;
  const adminUrl = process.env.DOORBUSTER_TEST_DATABASE_URL;
  if (!adminUrl) throw new Error('run the tests with `npm test`: it starts the engines they need');
  // The second chance of a file is a run of its own, on the same Postgres.
  const template = `doorbuster_template_${process.pid}`;
  const admin = new pg.Client(adminUrl);
  await admin.connect();
  await admin.query(`create database ${template}`);
  await admin.end();
  const url = new URL(adminUrl);
  url.pathname = `/${template}`;
  /** @type {typeof import('../../shared/postgres/migrate.js')} */
  const { migrateToLatest } = await import(MIGRATE.href);
  await migrateToLatest(url.href);
  process.env.DOORBUSTER_TEST_TEMPLATE = template;
}

import { createClient } from '@clickhouse/client';
import { kafkaOfEnvironment } from '../event-source.js';
import { readKafka } from '../read-kafka.js';
import { dashboardQueries, Warehouse } from './warehouse.js';

const { CLICKHOUSE_URL = 'http://127.0.0.1:8123' } = process.env;
const client = createClient({ url: CLICKHOUSE_URL });
const warehouse = new Warehouse(client);
const [action, campaign] = process.argv.slice(2);

if (action === 'ask' && campaign) {
  for (const name of dashboardQueries().keys()) {
    process.stdout.write(`${name}\n`);
    for (const row of await warehouse.ask(name, campaign)) process.stdout.write(`  ${JSON.stringify(row)}\n`);
  }
} else {
  const kafka = kafkaOfEnvironment();
  if (!kafka) throw new Error('set KAFKA_BROKERS, and EVENT_TOPICS if it is not doorbuster.events');
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  await warehouse.createTable();
  const write = async (events: Parameters<Warehouse['write']>[0]) => {
    await warehouse.write(events);
    process.stdout.write(`${events.length} events written\n`);
  };
  // ClickHouse prefers few large inserts.
  await readKafka({ ...kafka, group: 'doorbuster-analytics' }, write, { batch: 10_000, signal: stop.signal });
}
await client.close();

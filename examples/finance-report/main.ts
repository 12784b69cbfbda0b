import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { stringify } from 'csv-stringify/sync';
import { kafkaOfEnvironment } from '../event-source.js';
import type { Event } from '../read-events.js';
import { readKafkaOnce } from '../read-kafka.js';
import { compare, FINDINGS } from './report.js';
import { readExport, readRedemptions } from './sources.js';

const HELP = `Compares the redemptions of a campaign with the payments that events reported and with a provider's export.

  node dist/examples/finance-report/main.js --campaign ID --export payments.csv

  --campaign ID        the campaign
  --export FILE        CSV of the payment provider, with a header line
  --payment COLUMN     its column of the payment reference (payment_ref)
  --status COLUMN      its column of the state (status)
  --amount COLUMN      its column of the amount (amount)
  --paid A,B           states that mean that the money is there (paid,succeeded); any other one means refunded

API_URL and ADMIN_KEY reach the admin API. Without KAFKA_BROKERS, events are not compared.
Writes CSV to the standard output. Ends with 1 if there are findings, with 2 if it cannot compare.
`;

const { values } = parseArgs({
  options: {
    campaign: { type: 'string' },
    export: { type: 'string' },
    payment: { type: 'string', default: 'payment_ref' },
    status: { type: 'string', default: 'status' },
    amount: { type: 'string', default: 'amount' },
    paid: { type: 'string', default: 'paid,succeeded' },
    help: { type: 'boolean', short: 'h' },
  },
});
const { API_URL, ADMIN_KEY } = process.env;

async function run(): Promise<number> {
  if (values.help || !values.campaign || !values.export || !API_URL || !ADMIN_KEY) {
    process.stderr.write(HELP);
    return values.help ? 0 : 2;
  }
  const { payment, status, amount } = values;
  const exported = readExport(values.export, { payment, status, amount, paid: values.paid.split(',') });
  const redemptions = await readRedemptions(API_URL, ADMIN_KEY, values.campaign);
  const events = await eventsOf(values.campaign);
  const findings = compare(redemptions, events, exported);
  const rows = findings.map((one) => ({ ...one, what_to_do: FINDINGS[one.kind] }));
  // A spreadsheet treats a cell that begins with = or @ as a formula.
  process.stdout.write(stringify(rows, { header: true, escape_formulas: true }));
  const compared = `${redemptions.length} redemptions, ${exported.length} payments of the provider`;
  process.stderr.write(`${compared}${events ? `, ${events.length} events` : ''}: ${findings.length} findings\n`);
  return findings.length > 0 ? 1 : 0;
}

async function eventsOf(campaign: string): Promise<Event[] | null> {
  const kafka = kafkaOfEnvironment();
  if (!kafka) return null;
  const events: Event[] = [];
  for await (const event of readKafkaOnce({ ...kafka, group: `doorbuster-finance-${randomUUID()}` }))
    if (event.data.campaign_id === campaign) events.push(event);
  return events;
}

try {
  process.exitCode = await run();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}

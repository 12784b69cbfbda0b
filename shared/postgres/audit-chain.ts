import { createHash } from 'node:crypto';
import type { UserId } from '../domain/ids.js';
import { isPseudonym } from './erasures.js';
import type { Database, Queryable } from './pool.js';

/** Who wrote the entries of a chain: operators, or the journal of the sale. */
export type ChainSource = 'operator' | 'journal';

/** `campaign`: its id; null = entries that concern no campaign. */
export type ChainName = { source: ChainSource; campaign: string | null };

/** An entry that was verified. */
export type ChainEntry = {
  at: Date;
  actor: string;
  action: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
};

/** The first entry that is not what was written, and what is wrong with it. */
export type BrokenLink = { auditId: string | null; no: number; why: string };

export type ChainReport = ChainName & {
  /** Entries that were read. */
  entries: number;
  /** Entries that AUDIT_KEEP_DAYS has removed, from the first on. */
  removed: number;
  /** Entries about users who were erased: what says whom they were about cannot be verified any more. */
  erased: number;
  /** Link of the last entry, hexadecimal; "" = there is no entry. */
  head: string;
  /** Those of the kept heads that the chain has. */
  kept: string[];
  broken: BrokenLink | null;
};

/** Action of the entry that says up to which entry, and to which link, entries were removed because of their age. */
export const EXPIRED = 'audit.expire';

type Row = ChainEntry & {
  audit_id: string;
  chain_no: string;
  link: Buffer;
  people: Buffer | null;
  salt: Buffer | null;
  text: string;
  people_text: string;
};

const PAGE = 1_000;
const NO_PEOPLE = '[null, null]';
/** What the functions of the schema compute, written out: a changed function changes nothing here. */
const IS_PERSON = (entry: string) => `${entry} ->> 'kind' in ('user', 'device', 'network')`;
const PEOPLE = (entry: string) => `case when ${entry} ? 'user_id' or ${IS_PERSON(entry)} then jsonb_build_array(
  ${entry} -> 'user_id', case when ${IS_PERSON(entry)} then ${entry} -> 'subject' end, ${entry} -> 'reason') end`;
const REST = (entry: string) => `case when (${PEOPLE(entry)}) is null then ${entry}
  else ${entry} - 'user_id' - 'reason' - case when ${IS_PERSON(entry)} then 'subject' else '' end end`;
const ENTRIES = `select a.audit_id, a.chain_no, a.link, a.people, p.salt, a.at, a.actor, a.action, a.before, a.after,
    jsonb_build_array(a.chain, a.chain_no, a.audit_id, (extract(epoch from a.at) * 1000000)::bigint, a.actor, a.action,
      a.campaign_id, ${REST('a.before')}, ${REST('a.after')}, a.request_id, encode(a.people, 'hex'))::text as text,
    jsonb_build_array(${PEOPLE('a.before')}, ${PEOPLE('a.after')})::text as people_text
  from audit_log a left join audit_people p using (audit_id)
  where a.chain = $1 and a.chain_no >= $2 order by a.chain_no limit $3`;
const LOWEST = '-9223372036854775808';

const digest = (...parts: readonly (Buffer | string)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const nameOf = ({ source, campaign }: ChainName): string => `${source}:${campaign ?? 'service'}`;

/** Verifies chains of the audit log. Every method throws EngineUnavailable. */
export class AuditChains {
  constructor(readonly database: Database) {}

  /** The chains that have or had entries, those of a campaign or all. @param campaign its id; null = all */
  async list(campaign: string | null): Promise<ChainName[]> {
    const { rows } = await this.database.query<{ chain: string }>(
      campaign === null
        ? 'select chain from audit_chains union select chain from audit_log order by chain'
        : `select chain from audit_chains where chain in ('operator:' || $1::text, 'journal:' || $1::text)
           union select chain from audit_log where campaign_id = $1::uuid order by chain`,
      campaign === null ? [] : [campaign],
    );
    return rows.map(({ chain }) => {
      const [source, id] = chain.split(':') as [ChainSource, string];
      return { source, campaign: id === 'service' ? null : id };
    });
  }

  /**
   * Reads a chain from its first entry and stops at the first that is broken.
   * @param kept heads that were printed before and kept elsewhere, hexadecimal
   * @param onEntry called with each entry, in the order in which they were written
   */
  async verify(
    name: ChainName,
    kept: readonly string[] = [],
    onEntry: (entry: ChainEntry) => void = () => {},
  ): Promise<ChainReport> {
    const reader = new ChainReader(name, kept, onEntry);
    try {
      return await this.database.transaction(async (client) => {
        // The entries as of one moment.
        await client.query('set transaction isolation level repeatable read, read only');
        // A reader of what is printed may take its time.
        await client.query('set local idle_in_transaction_session_timeout = 0');
        return reader.read(client);
      });
    } catch (error) {
      // For instance values of a type that no entry has.
      if (isOfData(error)) return reader.report(`it cannot be read: ${(error as Error).message}`);
      throw error;
    }
  }
}

/** Whether Postgres has refused a value: class 22 of its error codes. */
const isOfData = (error: unknown): boolean =>
  error instanceof RangeError || String((error as { code?: unknown }).code).startsWith('22');

class ChainReader {
  #entries = 0;
  #erased = 0;
  #removed = 0;
  #no = 0;
  #previous: Buffer = Buffer.alloc(0);
  /** The link that the first entry has to follow, because those before it have expired; null = not known yet. */
  #anchor: { no: number; link: string } | null = null;
  readonly #kept = new Set<string>();

  constructor(
    readonly name: ChainName,
    readonly kept: readonly string[],
    readonly onEntry: (entry: ChainEntry) => void,
  ) {}

  async read(client: Queryable): Promise<ChainReport> {
    const chain = nameOf(this.name);
    const { rows } = await client.query<{ entries: string; head: Buffer }>(
      'select entries, head from audit_chains where chain = $1',
      [chain],
    );
    this.#anchor = await anchorOf(client, chain);
    for (let from = LOWEST; ; from = String(this.#no + 1)) {
      const { rows: page } = await client.query<Row>(ENTRIES, [chain, from, PAGE]);
      for (const row of page) {
        const why = this.#next(row);
        if (why !== null) return this.report(why, row.audit_id);
      }
      if (page.length < PAGE) break;
    }
    const [known] = rows;
    if (!known) return this.report('the chain has lost its row in audit_chains');
    if (this.#no < Number(known.entries)) return this.report(`entries after ${this.#no} are missing`);
    if (this.#no > Number(known.entries)) return this.report(`audit_chains counts ${known.entries} entries`);
    return this.#previous.equals(known.head) ? this.report(null) : this.report('audit_chains has another last entry');
  }

  /** @param why what is wrong; null = nothing */
  report(why: string | null, auditId: string | null = null): ChainReport {
    const broken = why === null ? null : { auditId, no: auditId === null ? this.#no + 1 : this.#no, why };
    return {
      ...{ ...this.name, entries: this.#entries, removed: this.#removed, erased: this.#erased, broken },
      head: this.#previous.toString('hex'),
      kept: [...this.#kept],
    };
  }

  /** @returns what is wrong with an entry; null = it is as it was written */
  #next(row: Row): string | null {
    const no = Number(row.chain_no);
    if (this.#entries === 0 && no > 1 && this.#anchor?.no === no - 1) {
      this.#removed = no - 1;
      this.#no = this.#removed;
      this.#previous = Buffer.from(this.#anchor.link, 'hex');
      this.#keep();
    }
    this.#no += 1;
    if (no !== this.#no)
      return no < this.#no ? 'its number was changed' : `entries before it are missing, from ${this.#no} on`;
    const why = whyBroken(row, this.#previous);
    if (why !== null) return why;
    this.#previous = row.link;
    this.#entries += 1;
    if (row.people !== null && row.salt === null) this.#erased += 1;
    this.#keep();
    this.onEntry(row);
    return null;
  }

  #keep(): void {
    const head = this.#previous.toString('hex');
    if (this.kept.includes(head)) this.#kept.add(head);
  }
}

/** The last removal because of age, as an entry of the chain says; null = there was none. */
async function anchorOf(client: Queryable, chain: string): Promise<{ no: number; link: string } | null> {
  const { rows } = await client.query<{ no: string | null; link: string | null }>(
    `select after ->> 'up_to' as no, after ->> 'link' as link from audit_log where chain = $1 and action = $2
     order by chain_no desc limit 1`,
    [chain, EXPIRED],
  );
  const [row] = rows;
  return row ? { no: Number(row.no), link: row.link ?? '' } : null;
}

function whyBroken({ link, people, salt, text, people_text }: Row, previous: Buffer): string | null {
  if (!digest(previous, text).equals(link)) return 'it was changed, or an entry before it was removed';
  if (people === null) return people_text === NO_PEOPLE ? null : 'the user whom it is about was added';
  if (salt === null) return isErased(people_text) ? null : 'the user whom it is about, or the reason, was changed';
  return digest(salt, people_text).equals(people) ? null : 'the user whom it is about, or the reason, was changed';
}

/** Whether an entry names pseudonyms alone and has no reason, as an erasure leaves it. */
function isErased(peopleText: string): boolean {
  const people = JSON.parse(peopleText) as ([unknown, unknown, unknown] | null)[];
  return people.every((one) => {
    if (one === null) return true;
    const [user, subject, reason] = one;
    return reason === null && [user, subject].every((id) => id === null || isPseudonym(String(id) as UserId));
  });
}

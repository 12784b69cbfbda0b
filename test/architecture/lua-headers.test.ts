import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { ContractError } from '../../shared/errors/faults.js';
import { decodeEntry } from '../../shared/redis/journal-entries.js';
import type { ScriptContract } from '../../shared/redis/script-contract.js';
import { readHeader } from '../../shared/redis/script-header.js';
import { loadScript } from '../../shared/redis/script-source.js';
import { SALE_SCRIPTS } from '../../shared/sale/sale-scripts.js';
import { CALL_NAMES, DECISION_KINDS, decodeDecision, REQUEST_NAMES } from '../../shared/sale/scripts/reserve.js';
import {
  CONFIRM_DECISIONS,
  CONFIRM_NAMES,
  RELEASE_DECISIONS,
  RELEASE_NAMES,
} from '../../shared/sale/scripts/settlement.js';
import { appendedKinds, codeOf, decidedKinds, returnedKinds } from './lua-code.js';
import { isWriting, ordersWrong, reachableCode } from './lua-order.js';

/** Each script against its header and against its contract in TypeScript, in both directions. */
const LUA = join(projectRoot(), 'lua');
const files = readdirSync(LUA)
  .filter((file) => file.endsWith('.lua'))
  .map((file) => file.replace(/\.lua$/, ''));
const sourceOf = (name: string) => readFileSync(join(LUA, `${name}.lua`), 'utf8');
const sourceCodeOf = (path: string) => codeOf(readFileSync(join(LUA, `${path}.lua`), 'utf8'));
const loadedCodeOf = (name: string) => codeOf(loadScript(LUA, name).source);
const contractOf = (name: string): ScriptContract => {
  const contract = SALE_SCRIPTS.find((script) => script.name === name);
  if (!contract) throw new Error(`${name}.lua has no contract`);
  return contract;
};

const READ_ONLY = [
  'bucket_heads',
  'bucket_places',
  'check_redeemable',
  'line_head',
  'positions',
  'read_promise',
  'shopper_status',
];

test('every script has a contract and every contract a script', () => {
  expect(SALE_SCRIPTS.map(({ name }) => name).sort()).toEqual([...files].sort());
});

for (const name of files) {
  const source = sourceOf(name);
  const code = loadedCodeOf(name);

  test(`${name}: keys and arguments are the same in header and contract, and are used`, () => {
    const [header, contract] = [readHeader(source), contractOf(name)];
    expect(header.purpose.length).toBeGreaterThan(20);
    expect(header.keys).toEqual(contract.keys);
    expect(header.args).toEqual(contract.args ?? []);
    expect(header.each).toEqual(contract.each ?? []);
    const names = [...header.args, ...header.each.map((one) => `each_${one}`)].map((one) => one.replace(/:.*/, ''));
    expect(names.filter((one) => !new RegExp(`\\b${one}\\b`).test(sourceCodeOf(name)))).toEqual([]);
  });

  test(`${name}: replies are the same in header, code and contract`, () => {
    const { replies } = readHeader(source);
    const contract = contractOf(name).replies;
    expect([...replies.keys()].sort()).toEqual(Object.keys(contract).sort());
    expect(returnedKinds(code).filter((kind) => !replies.has(kind))).toEqual([]);
    expect([...replies.keys()].filter((kind) => !new RegExp(`'${kind}'`).test(code))).toEqual([]);
    for (const [kind, fields] of replies) {
      const decode = contract[kind];
      if (kind === 'rebuilding' || kind === 'fenced' || !decode) continue;
      const entries = fields.at(-1) === 'entry...';
      const names: readonly string[] = (decode as { names?: readonly string[] }).names ?? [];
      expect([kind, fields.map(camelCase).slice(0, names.length)]).toEqual([kind, names]);
      if (fields.at(-1)?.endsWith('...') && !entries) continue;
      const { needed, outcome } = decodedBy(decode);
      expect([kind, needed]).toEqual([kind, fields.length - (entries ? 1 : 0)]);
      if (entries) expect([kind, outcome]).toMatchObject([kind, { entries: [] }]);
    }
  });

  test(`${name}: journals what its header says`, () => {
    expect(appendedKinds(reachableCode(code))).toEqual([...readHeader(source).journals].sort());
  });

  test(`${name}: decides first and writes then, so that nothing can fail after a write`, () => {
    expect(ordersWrong(code)).toEqual([]);
    expect([name, isWriting(code)]).toEqual([name, !READ_ONLY.includes(name)]);
  });

  test(`${name}: calls Redis so that errors are not hidden, and decides nothing by chance`, () => {
    expect(code).not.toMatch(/redis\.pcall|math\.random/);
  });
}

test('keys and arguments have the names of the header: no script reads them by their positions', () => {
  const includes = readdirSync(join(LUA, 'includes')).map((file) => `includes/${file.replace(/\.lua$/, '')}`);
  expect([...files, ...includes].filter((path) => /\b(KEYS|ARGV)\b/.test(sourceCodeOf(path)))).toEqual([]);
});

/** Scripts that decide on several requests, by name: what they are given, and what becomes of a request. */
const call = { no: 1, at: 1, due: 1, terms: 1, durable: true, replies: [] };
const reserved = (raw: never) =>
  decodeDecision({ raw, call, request: { reservationPrefix: '', claim: { order: null } }, journalId: '' });
const settled = (decoders: Record<string, (decision: never) => object>) => (raw: never) =>
  decoders[(raw as { kind: string }).kind]?.({ raw, durable: true, entries: [] } as never);
const BATCHES = {
  reserve: { input: CALL_NAMES, request: REQUEST_NAMES, kinds: DECISION_KINDS, decode: reserved },
  confirm: {
    input: ['requests', 'order_ttl_ms'],
    request: CONFIRM_NAMES,
    kinds: Object.keys(CONFIRM_DECISIONS),
    decode: settled(CONFIRM_DECISIONS),
  },
  release: {
    input: ['requests'],
    request: RELEASE_NAMES,
    kinds: Object.keys(RELEASE_DECISIONS),
    decode: settled(RELEASE_DECISIONS),
  },
};
/** Fields that all decisions of a call are numbered by, which are read before the decision is decoded. */
const NUMBERING = ['journaled', 'entries'];

test('every script with decisions is compared here', () => {
  const found = files.filter((name) => readHeader(sourceOf(name)).decisions.size > 0);
  expect(found.sort()).toEqual(Object.keys(BATCHES).sort());
});

for (const [name, { input, request, kinds, decode }] of Object.entries(BATCHES)) {
  test(`${name}: its input, requests and decisions are the same in header, code and contract`, () => {
    const [header, code] = [readHeader(sourceOf(name)), loadedCodeOf(name)];
    expect(header.input).toEqual(input);
    expect(header.request).toEqual(request);
    for (const field of input) expect(code).toMatch(new RegExp(`\\binput\\.${field}\\b`));
    for (const field of request) expect(code).toMatch(new RegExp(`\\br\\.${field}\\b`));
    const decisions = [...header.decisions.keys()].filter((kind) => kind !== 'failed').sort();
    expect([...kinds].sort()).toEqual(decisions);
    // The phases of a campaign are kinds too, and need no literal.
    const phases = name === 'reserve' ? ['paused', 'ended'] : [];
    const decided = decidedKinds(code).filter((kind) => kind !== 'failed');
    expect([...new Set([...decided, ...phases])].sort()).toEqual(decisions);
    for (const kind of decisions) {
      const own = header.decisions.get(kind)?.filter((field) => !NUMBERING.includes(field)) ?? [];
      expect([kind, fieldsRead(kind, decode)]).toEqual([kind, own.sort()]);
      for (const field of own)
        expect([kind, code]).toEqual([kind, expect.stringMatching(new RegExp(`\\b${field} =|"${field}":`))]);
    }
  });
}

/** Names of the fields that a decoder reads of a decision. */
function fieldsRead(kind: string, decode: (raw: never) => unknown): string[] {
  const read = new Set<string>();
  const values: Record<string, unknown> = { kind, state: 'released', reacquired: true, reservations: [] };
  const raw = new Proxy(values, {
    get: (target, name) => {
      if (typeof name === 'string' && name !== 'kind') read.add(name);
      return target[name as string] ?? 1;
    },
  });
  try {
    decode(raw as never);
  } catch {
    // The other states of this kind.
    values.state = 'redeemed';
    decode(raw as never);
  }
  return [...read].sort();
}

const camelCase = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** How many fields a decoder reads: it is given one more until it is content. */
function decodedBy(decode: (fields: readonly string[]) => object): { needed: number; outcome: object } {
  const fields: string[] = [];
  for (let tries = 0; tries < 50; tries += 1) {
    try {
      return { outcome: decode(fields), needed: fields.length };
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      const [, index, rest = ''] = /^reply field (\d+) (.*)/s.exec(error.message) ?? [];
      const oneOf = /not one of ([^,]+)/.exec(rest)?.[1];
      fields[Number(index)] = rest.startsWith('is missing') ? 'x' : (oneOf ?? '1');
    }
  }
  throw new Error('the decoder is never content');
}

const decodes = (kind: string): boolean => {
  try {
    decodeEntry({ journalId: '1-1', fields: { kind, no: '1', at: '1' } });
    return true;
  } catch (error) {
    return !/unknown kind/.test(String(error));
  }
};

test('every kind that a script journals can be decoded, and every kind that can be decoded is journaled by one', () => {
  const journaled = new Set(files.flatMap((name) => appendedKinds(reachableCode(loadedCodeOf(name)))));
  const contract = readFileSync(join(projectRoot(), 'shared/contracts/journal.ts'), 'utf8');
  const declared = [...contract.matchAll(/^ {6}kind: ([^;]+);|\{ kind: ([^;]+);/gm)].flatMap(([, a, b]) =>
    [...String(a ?? b).matchAll(/'(\w+)'/g)].map(([, kind]) => String(kind)),
  );
  expect([...journaled].sort()).toEqual([...declared].sort());
  expect(declared.filter((kind) => !decodes(kind))).toEqual([]);
  expect(decodes('invented')).toBe(false);
});

test('every include is used and has no header of its own to keep', () => {
  const includes = readdirSync(join(LUA, 'includes')).map((file) => file.replace(/\.lua$/, ''));
  const used = new Set(
    files.flatMap((name) => [...sourceOf(name).matchAll(/^--#include (\w+)$/gm)].map(([, part]) => part)),
  );
  expect(includes.filter((part) => !used.has(part))).toEqual([]);
});

const GOOD = `-- What it is for.
--
-- KEYS campaign, line, request_keys... (at most 7)
-- ARGV
--   user          who asks
--   a:int b:flag  two of them
--                 and more about them
-- EACH (at most 9)
--   place
--   age_ms:int    how old it is
-- REPLY
--   done position     it is done
--       position 0 = none
--   late | never
-- JOURNALS left, reserved (the next, in line). And why.

--#include clock
`;

test('a header is read as it is written', () => {
  expect(readHeader(GOOD)).toEqual({
    purpose: 'What it is for.',
    keys: ['campaign', 'line', 'request_keys...'],
    maxListedKeys: 7,
    args: ['user', 'a:int', 'b:flag'],
    each: ['place', 'age_ms:int'],
    maxRows: 9,
    replies: new Map([
      ['done', ['position']],
      ['late', []],
      ['never', []],
    ]),
    journals: ['left', 'reserved'],
    input: [],
    request: [],
    decisions: new Map(),
  });
});

test('a script without a header, or with a part of it missing, is refused', () => {
  expect(() => readHeader(GOOD.replace(/^--.*\n/gm, ''))).toThrow('the header has no');
  const withoutRows = GOOD.replace(/^-- EACH.*\n-- {3}place\n-- {3}age_ms.*\n/m, '');
  for (const part of ['KEYS', 'ARGV', 'REPLY', 'JOURNALS']) {
    expect(() => readHeader(withoutRows.replace(new RegExp(`^-- ${part}.*\\n`, 'm'), ''))).toThrow(
      `the header has no ${part}`,
    );
  }
  expect(() => readHeader(GOOD.replace(' (at most 7)', ''))).toThrow('no bound');
  expect(() => readHeader(GOOD.replace(' (at most 9)', ''))).toThrow('no bound');
});

test('appended kinds are found through literals, return_units and variables, and only in functions that are used', () => {
  const code = `local function append_answered(append, no)
  return append('kind', 'answered', 'no', no)
end
local function end_place(plan)
  add_entry(plan, nil, 'kind', 'left', 'no', 1)
end
end_place(plan)
local ending = now < due and 'released' or 'expired'
return_units(plan, id, reservation, ending, 'reason', reason)
return_units(plan, id, reservation, 'voided', 'reason', reason)`;
  expect(appendedKinds(reachableCode(code))).toEqual(['expired', 'left', 'released', 'voided']);
  const withFunction = `if state == 'queued' or state == 'refunded' then append_change(state, 'reason', '') end
append_change('redeemed', 'slot', 1)`;
  expect(appendedKinds(withFunction)).toEqual(['queued', 'redeemed', 'refunded']);
  expect(() => appendedKinds("return_units(plan, id, reservation, whatever, 'reason', 'x')")).toThrow('not plain');
});

describe('ordersWrong', () => {
  const write = "redis.call('SET', key, 1)";
  const read = "local v = redis.call('GET', key)";
  const cases: [string, string, string[]][] = [
    ['a decision before the write', `${read}\nassert(v)\n${write}\nreturn { v }`, []],
    ['a read after it', `${write}\n${read}`, ['the script: GET after a write']],
    ['an assert after it', `${write}\nassert(v)`, ['the script: assert after a write']],
    ['a conversion after it', `${write}\nlocal n = tonumber(v)`, ['the script: tonumber after a write']],
    ['a concatenation after it', `${write}\nlocal t = v .. 'x'`, ['the script: the operator .. after a write']],
    ['what a call is given is decided before it', "redis.call('SET', key, redis.call('GET', key) + 1)", []],
    ['a function that writes', `local function w() ${write} end\nw()\n${read}`, ['the script: GET after a write']],
    ['a function that reads', `local function r() ${read} end\n${write}\nr()`, ['the script: r after a write']],
    ['within a function', `local function f() ${write}\n${read} end`, ['f: GET after a write']],
    ['a branch that ends there', `if x then ${write}\nreturn { 1 } end\n${read}`, []],
    ['a branch that goes on', `if x then ${write} end\n${read}`, ['the script: GET after a write']],
    ['the other branch', `if x then ${write} else ${read} end`, []],
    ['a return that writes', `local function w() ${write} end\nif x then return w() end\n${read}`, []],
    ['the next time of a loop', `for i = 1, 2 do ${read}\n${write} end`, ['the script: GET after a write']],
    ['a loop that writes', `for i = 1, #list do ${write} end`, []],
    [
      'a journal entry after another write',
      `${write}\nredis.call('XADD', key, id, 'a', 1)`,
      ['the script: XADD after another write'],
    ],
    ['journal entries first', `for i = 1, 2 do redis.call('XADD', key, id, 'a', 1) end\n${write}`, []],
    ['a loop until', `repeat ${write}\nuntil v > 1`, ['the script: the operator > after a write']],
  ];
  for (const [what, code, wrong] of cases) {
    test(what, () => expect(ordersWrong(code)).toEqual(wrong));
  }

  test('a command that is in no list yet', () => {
    expect(() => ordersWrong("redis.call('LPUSH', key, 1)")).toThrow('LPUSH is in neither list');
  });
});

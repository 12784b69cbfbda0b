import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ContractError } from '../errors/faults.js';
import { type CallOf, defineScript, type ScriptContract } from './script-contract.js';
import { inOrder, type LoadedScript, loadScript, withOrigins } from './script-source.js';

const SCRIPT = `-- Moves a user.
--
-- KEYS campaign, line, order_keys... (at most 3)
-- ARGV
--   user
--   qty:int limit:int? open:flag input:json
-- EACH (at most 9)
--   place
--   age_ms:int
-- REPLY
--   moved
-- JOURNALS nothing

--#include clock
--#include plan

-- Now.
local now = now_ms()
return { 'moved' }
`;

const sample = defineScript({
  name: 'sample',
  keys: ['campaign', 'line', 'order_keys...'],
  args: ['user', 'qty:int', 'limit:int?', 'open:flag', 'input:json'],
  each: ['place', 'age_ms:int'],
  replies: { moved: () => ({}) },
});
const call = <Contract extends ScriptContract>(_contract: Contract, given: CallOf<Contract>) => given as never;

const keys = { campaign: 'c', line: 'l', order_keys: ['o1', 'o2'] };
const args = { user: 'ann', qty: 2, limit: null, open: true, input: { requests: [] } };
const each = [
  { place: 'p1', age_ms: 10 },
  { place: 'p2', age_ms: 20 },
];

const folder = mkdtempSync(join(tmpdir(), 'doorbuster-lua-'));
const write = (text: string) => writeFileSync(join(folder, 'sample.lua'), text);
let script: LoadedScript;
beforeAll(() => {
  mkdirSync(join(folder, 'includes'));
  writeFileSync(join(folder, 'includes/clock.lua'), '-- Time.\nlocal function now_ms() return 1 end\n');
  writeFileSync(join(folder, 'includes/plan.lua'), 'local function new_plan() end\n');
  write(SCRIPT);
  script = loadScript(folder, 'sample');
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('loadScript', () => {
  it('declares the names of the header on the first line of code', () => {
    const line = script.source.split('\n').find((one) => one.endsWith('local now = now_ms()'));
    expect(line?.split(/(?<=\)) (?=local)| (?=local|do )/)).toEqual([
      "assert(#KEYS >= 2 and #KEYS <= 5 and #ARGV >= 5 and #ARGV <= 23 and (#ARGV - 5) % 2 == 0, 'sample takes 2 to 5 keys and 5 to 23 arguments')",
      'local campaign_key, line_key = unpack(KEYS, 1, 2)',
      'local order_keys = { unpack(KEYS, 3) }',
      'local keys = { campaign = campaign_key, line = line_key }',
      "local user, qty, limit, open, input = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', cjson.decode(ARGV[5])",
      'local each_place, each_age_ms = {}, {}',
      'do',
      'local argv, row = ARGV, 0 for i = 6, #argv, 2',
      'do row = row + 1 each_place[row], each_age_ms[row] = argv[i], tonumber(argv[i + 1]) end end;',
      'local now = now_ms()',
    ]);
  });

  it('adds no line but those of the includes, so that line numbers in errors are true', () => {
    const lines = script.source.split('\n');
    const written = SCRIPT.replace('--#include clock', '-- Time.\nlocal function now_ms() return 1 end\n')
      .replace('--#include plan', 'local function new_plan() end\n')
      .split('\n');
    expect(lines.length).toBe(written.length);
    expect(lines.filter((line, i) => line !== written[i])).toHaveLength(1);
  });

  it('rejects a type that it cannot read', () => {
    write(SCRIPT.replace('qty:int', 'qty:integer'));
    expect(() => loadScript(folder, 'sample')).toThrow('qty:integer has an unknown type; known: text,int');
  });
});

describe('inOrder', () => {
  it('puts names into the order of the header and encodes values by their types', () => {
    const mixed = {
      keys: { order_keys: keys.order_keys, line: 'l', campaign: 'c', journal: 'not taken' },
      args: { input: args.input, open: true, limit: null, qty: 2, user: 'ann' },
      each,
    };
    expect(inOrder(script, call(sample, mixed))).toEqual({
      keyNames: ['c', 'l', 'o1', 'o2'],
      args: ['ann', 2, '', 1, '{"requests":[]}', 'p1', 10, 'p2', 20],
    });
    expect(inOrder(script, call(sample, { keys, args: { ...args, limit: 5, open: false }, each: [] }))).toMatchObject({
      args: ['ann', 2, 5, 0, '{"requests":[]}'],
    });
  });

  it('throws for a name that is missing, which does not compile either', () => {
    const { campaign, ...otherKeys } = keys;
    const { qty, ...otherArgs } = args;
    const calls = [
      // @ts-expect-error a key is missing
      () => call(sample, { keys: otherKeys, args, each }),
      // @ts-expect-error an argument is missing
      () => call(sample, { keys, args: otherArgs, each }),
      // @ts-expect-error an argument of the rows is missing
      () => call(sample, { keys, args, each: [{ place: 'p1' }] }),
      // @ts-expect-error the arguments are missing
      () => call(sample, { keys, each }),
    ];
    for (const given of calls) expect(() => inOrder(script, given())).toThrow(ContractError);
    expect([campaign, qty]).toEqual(['c', 2]);
  });

  it('takes no other names and types, by the compiler', () => {
    const calls = [
      // @ts-expect-error no such key
      call(sample, { keys: { campaign: 'c', line: 'l', lines: 'l', order_keys: ['o1', 'o2'] }, args, each }),
      // @ts-expect-error no such argument
      call(sample, { keys, args: { user: 'ann', qty: 2, quantity: 2, limit: null, open: true, input: {} }, each }),
      // @ts-expect-error qty is a number
      call(sample, { keys, args: { ...args, qty: '2' }, each }),
      // @ts-expect-error order_keys is a list
      call(sample, { keys: { ...keys, order_keys: 'o1' }, args, each }),
    ];
    for (const given of calls.slice(0, 2)) expect(inOrder(script, given).keyNames).toEqual(['c', 'l', 'o1', 'o2']);
  });
});

describe('withOrigins', () => {
  it('names the file and the line of the script or of its include', () => {
    write(
      '-- Moves.\n--\n-- KEYS campaign\n-- ARGV\n--   user\n-- REPLY\n--   moved\n-- JOURNALS nothing\n\n--#include clock\n\nerror(1)\n',
    );
    const located = loadScript(folder, 'sample');
    const lineOf = (text: string) => located.source.split('\n').findIndex((line) => line.includes(text)) + 1;
    expect(withOrigins(located, `ERR user_script:${lineOf('error(1)')}: 1, on @user_script:${lineOf('now_ms')}.`)).toBe(
      'ERR sample.lua:12: 1, on includes/clock.lua:2.',
    );
    expect(located.origins).toHaveLength(located.source.split('\n').length);
    expect(withOrigins(located, 'user_script:999: x')).toBe('user_script:999: x');
  });
});

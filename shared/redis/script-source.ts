import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ContractError } from '../errors/faults.js';
import { readHeader, type ScriptHeader } from './script-header.js';
import { expandRecords } from './script-records.js';

/** A script in the form that Redis receives, and the names of its header in their order. */
export type LoadedScript = {
  source: string;
  sha: string;
  keys: string[];
  args: string[];
  each: string[];
  /** File and line of each line of the source: `includes/plan.lua:12`. */
  origins: string[];
};

/** Lua expressions that convert an argument, by its type in the header. */
const READ: Record<string, (argument: string) => string> = {
  text: (argument) => argument,
  int: (argument) => `tonumber(${argument})`,
  'int?': (argument) => `tonumber(${argument})`,
  flag: (argument) => `${argument} == '1'`,
  json: (argument) => `cjson.decode(${argument})`,
};

/**
 * Loads <folder>/<name>.lua. Replaces each `--#include` line by its file, declares the names of the header before the
 * first line of code, and expands the formats of records (script-records.ts).
 * @throws Error if the header is incomplete, or a record is written without one of its fields
 */
export function loadScript(folder: string, name: string): LoadedScript {
  const text = readFileSync(join(folder, `${name}.lua`), 'utf8');
  const header = readHeader(text);
  const body = text.search(/^(?!--|$)/m);
  const origins: string[] = [];
  const included: string[] = [];
  const add = (lines: readonly string[], file: string) => {
    included.push(...lines);
    origins.push(...lines.map((_line, i) => `${file}:${i + 1}`));
  };
  const declared = `${text.slice(0, body)}${declarations(name, header, text)} ${text.slice(body)}`;
  for (const [i, line] of declared.split('\n').entries()) {
    const [, part] = /^--#include (\w+)$/.exec(line) ?? [];
    if (part) add(readFileSync(join(folder, 'includes', `${part}.lua`), 'utf8').split('\n'), `includes/${part}.lua`);
    else {
      included.push(line);
      origins.push(`${name}.lua:${i + 1}`);
    }
  }
  const source = expandRecords(included.join('\n'));
  const sha = createHash('sha1').update(source).digest('hex');
  return {
    source,
    sha,
    keys: header.keys.map(nameOf),
    args: header.args.map(nameOf),
    each: header.each.map(nameOf),
    origins,
  };
}

/** Returns an error message of Redis with the file and line instead of `user_script:<line of the source>`. */
export function withOrigins({ origins }: LoadedScript, message: string): string {
  return message.replace(/@?user_script:(\d+)/g, (found, line) => origins[Number(line) - 1] ?? found);
}

type Value = string | number | boolean | object | null;
type Call = {
  keys: Readonly<Record<string, string | readonly string[]>>;
  args?: Readonly<Record<string, Value>>;
  each?: readonly Readonly<Record<string, Value>>[];
};

/**
 * Returns the keys and arguments of a call in the order of the script.
 * @throws ContractError if a name is missing, because the contract differs from the header
 */
export function inOrder(script: LoadedScript, call: Call): { keyNames: string[]; args: (string | number)[] } {
  const keyNames: string[] = [];
  const args: (string | number)[] = [];
  for (const name of script.keys) {
    const given = call.keys[name];
    if (given === undefined) throw new ContractError(`a script lacks its key ${name}`);
    if (typeof given === 'string') keyNames.push(given);
    else keyNames.push(...given);
  }
  const add = (values: Readonly<Record<string, Value>>, name: string) => {
    const value = values[name];
    if (value === undefined) throw new ContractError(`a script lacks its argument ${name}`);
    args.push(encoded(value));
  };
  for (const name of script.args) add(call.args ?? {}, name);
  for (const row of call.each ?? []) for (const name of script.each) add(row, name);
  return { keyNames, args };
}

function encoded(value: Value): string | number {
  if (typeof value === 'string' || typeof value === 'number') return value;
  if (value === null) return '';
  return typeof value === 'boolean' ? Number(value) : JSON.stringify(value);
}

/**
 * Returns the Lua code that declares the names of the header and rejects other numbers of keys and arguments. It is one
 * line, so that line numbers in errors are those of the script with its includes.
 */
function declarations(name: string, header: ScriptHeader, text: string): string {
  const { keys, args, each, maxListedKeys, maxRows } = header;
  const isList = (key: string) => key.endsWith('...');
  const fixed = keys.filter((key) => !isList(key));
  const lists = keys.filter(isList).map(nameOf);
  const [keyCheck, keyCount] = arity('#KEYS', fixed.length, maxListedKeys, 1, 'key');
  const [argCheck, argCount] = arity('#ARGV', args.length, maxRows * each.length, each.length, 'argument');
  const code = [
    `assert(${keyCheck} and ${argCheck}, '${name} takes ${keyCount} and ${argCount}')`,
    `local ${fixed.map((key) => `${key}_key`).join(', ')} = unpack(KEYS, 1, ${fixed.length})`,
    ...lists.map((list) => `local ${list} = { unpack(KEYS, ${fixed.length + 1}) }`),
  ];
  // Scripts with a plan pass their keys as one table.
  if (/^--#include plan$/m.test(text)) {
    code.push(`local keys = { ${fixed.map((key) => `${key} = ${key}_key`).join(', ')} }`);
  }
  if (args.length > 0) {
    code.push(`local ${args.map(nameOf).join(', ')} = ${args.map((arg, i) => read(arg, `ARGV[${i + 1}]`)).join(', ')}`);
  }
  if (each.length > 0) {
    const columns = each.map((arg) => `each_${nameOf(arg)}`);
    const cells = each.map((arg, i) => read(arg, i === 0 ? 'argv[i]' : `argv[i + ${i}]`));
    code.push(
      `local ${columns.join(', ')} = ${columns.map(() => '{}').join(', ')}`,
      `do local argv, row = ARGV, 0`,
      `for i = ${args.length + 1}, #argv, ${each.length} do row = row + 1`,
      `${columns.map((column) => `${column}[row]`).join(', ')} = ${cells.join(', ')} end end`,
    );
  }
  return `${code.join(' ')};`;
}

/** Returns a Lua condition on the number of keys or arguments, and its description. */
function arity(count: string, fixed: number, most: number, step: number, noun: string): [string, string] {
  if (most === 0) return [`${count} == ${fixed}`, `${fixed} ${noun}${fixed === 1 ? '' : 's'}`];
  const steps = step > 1 ? ` and (${count} - ${fixed}) % ${step} == 0` : '';
  return [`${count} >= ${fixed} and ${count} <= ${fixed + most}${steps}`, `${fixed} to ${fixed + most} ${noun}s`];
}

/** `qty:int` → `qty`, `request_keys...` → `request_keys`. */
function nameOf(declared: string): string {
  return String(/^\w+/.exec(declared)?.[0]);
}

function read(declared: string, argument: string): string {
  const type = declared.split(':')[1] ?? 'text';
  const expression = READ[type];
  if (!expression) throw new Error(`${declared} has an unknown type; known: ${Object.keys(READ)}`);
  return expression(argument);
}

import { isAscii } from 'node:buffer';
import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import type { LineError, UploadSummary } from '../../shared/postgres/code-jobs.js';

const LF = 0x0a;
/** Leaves out a byte order mark. */
const utf8 = new TextDecoder('utf-8', { fatal: true });
const BLANKS = /\s*/y;
/**
 * One cell and what ends it: quoted, with "" for a quote, or bare. It is tried behind the blanks, so that no two parts of it can match
 * the same character and each character is looked at once.
 */
const CELL = /(?:"((?:[^"]|"")*)"\s*|([^",]*))(,|$)/y;
const NOT_A_CODE = {
  empty: 'the code is empty',
  too_long: 'the code is too long: at most 64 characters, and 128 with spaces and hyphens',
  bad_character: 'a code has letters A-Z and digits only, beside spaces and hyphens',
} as const;

/**
 * Lines `code[,user_id]` out of the bytes of an upload, whatever comes: memory stays that of one chunk, and what is wrong
 * with one line is the trouble of that line alone. Neither field can contain a line break, so a quote that is never closed
 * does not swallow the rest of the file, as it would with a general CSV reader.
 */
export class CodeLines {
  #line = 0;
  #rest: Buffer = Buffer.alloc(0);
  /** In a line that is too long: what comes is thrown away up to its end. */
  #skipping = false;
  #begun = false;
  #good = 0;
  #bad = 0;
  readonly #errors: LineError[] = [];

  constructor(
    readonly options: {
      /** Whether codes may be bound to users. */
      allowUsers: boolean;
      maxLineBytes: number;
      maxErrors: number;
      onCode: (line: number, code: Code, userId: string | null) => void;
    },
  ) {}

  /** Lines seen so far, the one that has begun included. */
  get line(): number {
    return this.#line;
  }

  /** Lines that can be codes. */
  get good(): number {
    return this.#good;
  }

  get isEmpty(): boolean {
    return this.#good + this.#bad === 0;
  }

  summary(): UploadSummary {
    return { total: this.#good, badLines: this.#bad, errors: this.#errors };
  }

  read(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      this.#endLine(chunk.subarray(from, end));
      from = end + 1;
    }
    this.#keep(chunk.subarray(from));
  }

  /** The last line may lack its end. */
  end(): void {
    if (this.#rest.length > 0 || this.#skipping) this.#endLine(Buffer.alloc(0));
  }

  #keep(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#rest.length + part.length > this.options.maxLineBytes) {
      this.#skipping = true;
      this.#rest = Buffer.alloc(0);
    } else {
      // A copy: a view would keep the whole chunk in memory.
      this.#rest = Buffer.concat([this.#rest, part]);
    }
  }

  #endLine(part: Buffer): void {
    this.#line += 1;
    const bytes = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part]);
    const tooLong = this.#skipping || bytes.length > this.options.maxLineBytes;
    this.#rest = Buffer.alloc(0);
    this.#skipping = false;
    if (tooLong) return this.#refuse(`the line is longer than ${this.options.maxLineBytes} bytes`);
    const text = decode(bytes);
    if (text === null) return this.#refuse('the line is not UTF-8');
    if (text.trim() === '') return;
    this.#readCells(text);
  }

  #readCells(text: string): void {
    const cells = cellsOf(text);
    const first = !this.#begun;
    this.#begun = true;
    if (cells === null) return this.#refuse('the quotes are not closed, or something follows them');
    const [typed = '', user = '', ...more] = cells;
    if (first && isHeader(cells)) return;
    if (more.length > 0) return this.#refuse('there are more than two columns');
    const result = normaliseCode(typed);
    if (result.kind !== 'code') return this.#refuse(NOT_A_CODE[result.kind]);
    if (user !== '' && !this.options.allowUsers) return this.#refuse('codes of a pool belong to nobody: no user_id');
    if (user !== '' && !EXTERNAL_ID_PATTERN.test(user))
      return this.#refuse('the user_id must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -');
    this.#good += 1;
    this.options.onCode(this.#line, result.code, user === '' ? null : user);
  }

  #refuse(detail: string): void {
    this.#begun = true;
    this.#bad += 1;
    if (this.#errors.length < this.options.maxErrors) this.#errors.push({ line: this.#line, detail });
  }
}

function decode(bytes: Buffer): string | null {
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

/** null when quotes stand where none can. */
function cellsOf(text: string): string[] | null {
  if (!text.includes('"')) return text.split(',').map((cell) => cell.trim());
  const cells: string[] = [];
  for (let at = 0; ; at = CELL.lastIndex) {
    BLANKS.lastIndex = at;
    BLANKS.test(text);
    CELL.lastIndex = BLANKS.lastIndex;
    const match = CELL.exec(text);
    if (!match) return null;
    cells.push((match[1]?.replaceAll('""', '"') ?? match[2] ?? '').trim());
    if (match[3] === '') return cells;
  }
}

function isHeader(cells: readonly string[]): boolean {
  const [code, user, ...more] = cells.map((cell) => cell.toLowerCase());
  return code === 'code' && (user === undefined || user === 'user_id') && more.length === 0;
}

import { isAscii } from 'node:buffer';
import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';
import type { LineError, UploadSummary } from '../../shared/postgres/code-jobs.js';

const LF = 0x0a;
/** Ignores a byte order mark. */
const utf8 = new TextDecoder('utf-8', { fatal: true });
const BLANKS = /\s*/y;
/**
 * One cell with its end: quoted, with "" for a quote, or bare. It is matched after the blanks, so that no two parts can
 * match the same character and matching takes linear time.
 */
const CELL = /(?:"((?:[^"]|"")*)"\s*|([^",]*))(,|$)/y;
/** What an export puts before a user id that begins like a formula. Ids have no apostrophe. */
const ESCAPED = /^'(?=[-@])/;
const NOT_A_CODE = {
  empty: 'the code is empty',
  too_long: 'the code is too long: at most 64 characters, and 128 with spaces and hyphens',
  bad_character: 'a code can contain only letters A-Z, digits, spaces and hyphens',
} as const;

/**
 * Reads lines `code[,user_id]` from the bytes of an upload. It needs memory for one chunk only, and an error in a line
 * affects that line only. Neither field can contain a line break, so an unclosed quote ends with its line; in a general
 * CSV reader it would span the rest of the file.
 */
export class CodeLines {
  #line = 0;
  #rest: Buffer = Buffer.alloc(0);
  /** Whether the current line is too long; its rest is discarded. */
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

  /** Number of lines read, including the current one. */
  get line(): number {
    return this.#line;
  }

  /** Number of lines with a valid code. */
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

  /** Reads the last line, which may lack its line break. */
  end(): void {
    if (this.#rest.length > 0 || this.#skipping) this.#endLine(Buffer.alloc(0));
  }

  #keep(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#rest.length + part.length > this.options.maxLineBytes) {
      this.#skipping = true;
      this.#rest = Buffer.alloc(0);
    } else {
      // Copies the part, because a view would keep the whole chunk in memory.
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
    if (cells === null) return this.#refuse('the quotes are not closed, or text follows them');
    const [typed = '', cell = '', ...more] = cells;
    const user = cell.replace(ESCAPED, '');
    if (first && isHeader(cells)) return;
    if (more.length > 0) return this.#refuse('the line has more than two columns');
    const result = normaliseCode(typed);
    if (result.kind !== 'code') return this.#refuse(NOT_A_CODE[result.kind]);
    if (user !== '' && !this.options.allowUsers) return this.#refuse('codes of a pool cannot have a user_id');
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

/** Returns the cells of a line; null = misplaced quotes. */
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

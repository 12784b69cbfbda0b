import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { FORMAT } from '../../shared/domain/format.js';
import { Refused } from '../../shared/errors/faults.js';

export const MANIFEST = 'manifest.json';
/** The journal entries that Postgres lacked. */
export const JOURNAL_FILE = 'journal.copy.gz';

const manifestForm = z.object({
  format: z.literal(FORMAT),
  created_at: z.string(),
  service_version: z.string(),
  /** By shard: the last journal entry that the backup has. */
  journal: z.record(z.string(), z.string()),
  sequences: z.record(z.string(), z.string().nullable()),
  /** In the order in which they can be filled. */
  tables: z.array(
    z.object({
      name: z.string(),
      columns: z.array(z.string()),
      file: z.string().regex(/^\w+\.copy\.gz$/),
      rows: z.number().int(),
      bytes: z.number().int(),
      sha256: z.string(),
    }),
  ),
});

/** What a backup contains. It is written last, so a folder without it is no backup. */
export type Manifest = z.infer<typeof manifestForm>;

/**
 * Reads the manifest of a backup, and compares each file with it.
 * @throws Refused
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const path = join(folder, MANIFEST);
  if (!existsSync(path)) throw new Refused(`${folder} has no ${MANIFEST}, so it is not a finished backup`);
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    throw new Refused(`${path} is not JSON`);
  }
  const parsed = manifestForm.safeParse(content);
  if (!parsed.success) throw new Refused(`${path} is not a manifest of format ${FORMAT}, which this version needs`);
  for (const { file, sha256 } of parsed.data.tables) {
    const found = existsSync(join(folder, file)) ? await digestOf(join(folder, file)) : 'missing';
    if (found !== sha256) throw new Refused(`${file} is ${found === 'missing' ? 'missing' : 'damaged'}`);
  }
  return parsed.data;
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

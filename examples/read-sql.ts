import { readFileSync } from 'node:fs';

/**
 * Reads a file of SQL beside the source of a module; the build copies none.
 * @param module its `import.meta.url`
 */
export function readSql(module: string, name: string): string {
  return readFileSync(new URL(name, module.replace('/dist/examples/', '/examples/')), 'utf8');
}

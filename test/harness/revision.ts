import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { FORMAT } from '../../shared/domain/format.js';
import { atEnd } from './cleanup.js';

/** Whether a commit has the formats of this checkout. An unpacked archive has no commits. */
export function hasThisFormat(commit: string): boolean {
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    const file = execFileSync('git', ['show', `${commit}:shared/domain/format.ts`], {
      cwd: projectRoot(),
      stdio: [...stdio],
    });
    return file.toString().includes(`FORMAT = ${FORMAT};`);
  } catch {
    return false;
  }
}

/**
 * Compiles another revision of the project, with the packages of this one. Removed with the test file.
 * @returns the folder whose `dist/` has the programs of that revision
 * @throws Error when it does not compile with these packages
 */
export function buildRevision(commit: string): string {
  const root = join(String(process.env.DOORBUSTER_TEST_DIR), `revision-${commit}-${process.pid}`);
  mkdirSync(root);
  atEnd('the other revision', () => rmSync(root, { recursive: true, force: true }));
  const archive = execFileSync('git', ['archive', commit], { cwd: projectRoot(), maxBuffer: 1 << 28 });
  execFileSync('tar', ['-x', '-C', root], { input: archive });
  symlinkSync(join(projectRoot(), 'node_modules'), join(root, 'node_modules'));
  execFileSync('npm', ['run', 'build', '--silent'], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  if (!existsSync(join(root, 'dist/api/main.js'))) throw new Error(`revision ${commit} has no dist/api/main.js`);
  return root;
}

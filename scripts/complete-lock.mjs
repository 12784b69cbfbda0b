// `node scripts/complete-lock.mjs [folder]`, after every change of package-lock.json: npm leaves out the optional
// packages of platforms that the current registry does not serve, and then `npm ci` refuses the lock everywhere. These
// packages have exact versions, so their entries can be written without the registry (except the checksum).
import { readFileSync, writeFileSync } from 'node:fs';

const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
const PROCESSORS = ['arm', 'arm64', 'ia32', 'loong64', 'ppc64', 'riscv64', 's390x', 'x64'];
/** Another folder than the root, such as docs-site. */
const folder = process.argv[2] ?? '.';
const LOCK = new URL(`../${folder}/package-lock.json`, import.meta.url);

const lock = JSON.parse(readFileSync(LOCK, 'utf8'));
const added = missingEntries(lock.packages);
lock.packages = Object.fromEntries(Object.entries({ ...lock.packages, ...added }).sort(byPath));
if (Object.keys(added).length > 0) writeFileSync(LOCK, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${Object.keys(added).length} entries added`);

/**
 * @param {Record<string, { dev?: boolean, optionalDependencies?: Record<string, string> }>} packages
 * @returns {Record<string, object>}
 */
function missingEntries(packages) {
  /** @type {Record<string, object>} */
  const missing = {};
  for (const [path, { dev, optionalDependencies = {} }] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(optionalDependencies)) {
      const isLocked = `node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages;
      if (isLocked || !/^\d+\.\d+\.\d+/.test(version)) continue;
      const words = name.split(/[/-]/);
      missing[`node_modules/${name}`] = {
        version,
        cpu: PROCESSORS.filter((processor) => words.includes(processor)),
        ...(dev === true ? { dev } : {}),
        optional: true,
        os: SYSTEMS.filter((system) => words.includes(system)),
        ...(words.includes('musl') ? { libc: ['musl'] } : words.includes('gnu') ? { libc: ['glibc'] } : {}),
      };
    }
  }
  return missing;
}

/** npm's own order. @param {[string, unknown]} a @param {[string, unknown]} b */
function byPath([a], [b]) {
  return a.localeCompare(b, 'en');
}

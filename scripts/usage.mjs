/**
 * Prints the usage and ends the process if the arguments ask for help.
 * @param {string} usage
 */
export function helpOrGoOn(usage) {
  if (!process.argv.slice(2).some((arg) => arg === '--help' || arg === '-h')) return;
  process.stdout.write(usage);
  process.exit(0);
}

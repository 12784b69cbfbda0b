import { availableParallelism } from 'node:os';

/** Unit tests lie beside the code, everything above in test/. Run through `npm test`, which brings the engines. */
export default {
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: [
    '/node_modules/',
    '/dist/',
    '/loadtest/node_modules/',
    // `npm run test:kafka` runs these. They need Java and Maven.
    ...(process.env.DOORBUSTER_TEST_KAFKA ? [] : ['<rootDir>/test/kafka/']),
    // Long ones of other days (scripts/test-layers.mjs).
    ...(process.env.DOORBUSTER_TEST_LEFT_OUT?.split(',').map((file) => `<rootDir>/${file}$`) ?? []),
  ],
  modulePathIgnorePatterns: [
    '<rootDir>/dist/',
    '<rootDir>/loadtest/node_modules/',
    '<rootDir>/test/generators/node_modules/',
    '<rootDir>/docs-site/node_modules/',
    '<rootDir>/docs-site/dist/',
    '<rootDir>/.data/',
    '<rootDir>/.engines/',
  ],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'es6' }, sourceMaps: 'inline' },
    ],
  },
  globalSetup: '<rootDir>/test/harness/global-setup.mjs',
  setupFilesAfterEnv: ['<rootDir>/test/harness/leaks.ts', '<rootDir>/test/harness/replay.ts'],
  testEnvironment: '<rootDir>/test/harness/environment.mjs',
  runner: '<rootDir>/test/harness/runner.mjs',
  // Most tests wait for processes and engines most of the time.
  maxWorkers: Math.ceil(1.5 * availableParallelism()),
  // No measure of anything: each wait has a limit and a name of its own.
  testTimeout: 600_000,
};

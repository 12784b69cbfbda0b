/**
 * A filter of Jest, which loads it with `require`: of the files that its other arguments select, the one that
 * `DOORBUSTER_TEST_ONLY` names. A path among the arguments cannot do that, because only Jest knows which of the others
 * are paths.
 * @param {string[]} paths
 */
module.exports = async (paths) => ({ filtered: paths.filter((path) => path === process.env.DOORBUSTER_TEST_ONLY) });

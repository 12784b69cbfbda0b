// Finds the reasons why a run fails: wrong responses, missing responses, failed checks, and what the ledger found.

/**
 * @param {object} run
 * @param {Record<string, readonly string[]>} run.answers the responses that each request may get
 * @param {import('./tally.mjs').Tally} run.tally
 * @param {readonly import('./run.mjs').Check[]} run.checks
 * @param {readonly import('./verdict.mjs').CampaignVerdict[]} run.verdicts
 * @returns {string[]} empty if the run passed
 */
export function findFailures({ answers, tally, checks, verdicts }) {
  const failures = [];
  for (const [name, { sent, answered, broken, outcomes }] of tally.kinds) {
    const silent = sent - answered;
    const why = Object.entries(broken).map(([word, count]) => `${count} × ${word}`);
    if (silent !== 0)
      failures.push(`${name}: ${silent} of ${sent} got no answer${why.length > 0 ? ` (${why.join(', ')})` : ''}`);
    for (const [outcome, count] of Object.entries(outcomes)) {
      if (answers[name]?.includes(outcome)) continue;
      const kind = outcome.startsWith('5')
        ? 'answered with a server error'
        : 'answered with a response that the scenario does not allow';
      failures.push(`${name}: ${count} × ${outcome}, ${kind}`);
    }
  }
  if (tally.total.answered === 0) failures.push('nothing was tried');
  if (tally.faultCount > 0) failures.push(`${tally.faultCount} × something that must not happen: ${tally.faults[0]}`);
  for (const { what, holds, found } of checks)
    if (!holds) failures.push(`not so: ${what}; found ${JSON.stringify(found)}`);
  return [...failures, ...verdictFailures(verdicts)];
}

/** @param {readonly import('./verdict.mjs').CampaignVerdict[]} verdicts @returns {string[]} */
export function verdictFailures(verdicts) {
  return verdicts.flatMap(({ product, ledger, told }) => {
    const found = Object.entries({
      lost: ledger.lost,
      'given out twice': ledger.duplicated,
      'over the cap': ledger.over_cap,
      drifted: ledger.drift,
      'promised without a row': told.missing,
      "promised, with another user's row": told.another,
      'promised and voided': told.voided,
      'promised to two people': told.twice,
    });
    return found.flatMap(([what, count]) => (count > 0 ? [`${product}: ${count} ${what}`] : []));
  });
}

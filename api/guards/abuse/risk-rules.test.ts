import { expect, test } from '@jest/globals';
import type { CampaignLimits } from '../../../shared/domain/campaign-policy.js';
import { judge, RISK_RULES, type Signals } from './risk-rules.js';

const calm: Signals = { accountsOnDevice: 1, accountsInNetwork: 1, accountAgeHours: 1_000, hour: 12 };
const found = (signals: Partial<Signals>, limits: CampaignLimits = {}) =>
  judge({ ...calm, ...signals }, limits).map(({ rule, verdict, reason }) => `${rule} ${verdict}: ${reason}`);

test('no rule applies to an ordinary shopper, or to unknown signals', () => {
  expect(found({})).toEqual([]);
  const unknown = { accountsOnDevice: null, accountsInNetwork: null, accountAgeHours: null };
  expect(found(unknown, { accountMinAgeHours: 24 })).toEqual([]);
});

test('each rule applies at its limit and not below', () => {
  const edges: [Partial<Signals>, CampaignLimits, string[]][] = [
    [{ accountsOnDevice: 4 }, {}, []],
    [{ accountsOnDevice: 5 }, {}, ['accounts_per_device block: 5 accounts on one device']],
    [{ accountsOnDevice: 5 }, { accountsPerDevice: 6 }, []],
    [{ accountsOnDevice: 900 }, { accountsPerDevice: null }, []],
    [{ accountsInNetwork: 100 }, {}, []],
    [{ accountsInNetwork: 101 }, {}, ['accounts_per_address challenge: 101 accounts in one network']],
    [{ accountsInNetwork: 101 }, { accountsPerAddress: null }, []],
    [{ accountAgeHours: 0 }, {}, []],
    [{ accountAgeHours: 23.9 }, { accountMinAgeHours: 24 }, ['account_age challenge: an account of 23 hours']],
    [{ accountAgeHours: 24 }, { accountMinAgeHours: 24 }, []],
    [{ hour: 2 }, {}, []],
    [{ hour: 3 }, {}, ['unusual_hours challenge: at 3 o’clock']],
    [{ hour: 5 }, {}, []],
    [{ hour: 4 }, { unusualHours: null }, []],
    [{ hour: 23 }, { unusualHours: { from: 22, to: 5 } }, ['unusual_hours challenge: at 23 o’clock']],
    [{ hour: 4 }, { unusualHours: { from: 22, to: 5 } }, ['unusual_hours challenge: at 4 o’clock']],
    [{ hour: 5 }, { unusualHours: { from: 22, to: 5 } }, []],
    [{ hour: 23 }, { unusualHours: { from: 23, to: 24 } }, ['unusual_hours challenge: at 23 o’clock']],
  ];
  for (const [signals, limits, expected] of edges)
    expect([signals, found(signals, limits)]).toEqual([signals, expected]);
});

test('a block comes before every challenge', () => {
  const all = judge(
    { accountsOnDevice: 9, accountsInNetwork: 999, accountAgeHours: 0, hour: 3 },
    { accountMinAgeHours: 1 },
  );
  expect(all.map(({ verdict }) => verdict)).toEqual(['block', 'challenge', 'challenge', 'challenge']);
  expect(all.map(({ rule }) => rule).sort()).toEqual(Object.keys(RISK_RULES).sort());
});

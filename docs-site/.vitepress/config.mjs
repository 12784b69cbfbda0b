// The site of the documents: VitePress reads them where they are. `npm run docs:site` builds it.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { anchorOf, isPage, linkOnSite, onSite } from '../links.mjs';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** The pages of the sidebar, by what a reader wants. A document that is missing here comes last. */
const SECTIONS = [
  ['Start', ['README.md', 'docs/start.md', 'docs/why.md', 'docs/glossary.md']],
  [
    'Integrate',
    [
      'docs/integrate.md',
      'docs/payments.md',
      'docs/identity.md',
      'docs/events.md',
      'docs/errors.md',
      'docs/sale-page.md',
      'docs/push.md',
      'client/README.md',
      'server/README.md',
      'examples/README.md',
    ],
  ],
  [
    'Sell',
    ['docs/operators.md', 'docs/team.md', 'docs/rules.md', 'docs/codes.md', 'docs/planning.md', 'docs/questions.md'],
  ],
  ['Run', ['docs/deployment.md', 'docs/upgrade.md', 'docs/configuration.md', 'docs/runbook.md', 'docs/postgres.md']],
  ['Understand', ['ARCHITECTURE.md', 'docs/life-of-a-checkout.md', 'docs/performance.md', 'docs/threats.md']],
  ['Project', ['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md']],
];

const documentsIn = (/** @type {string} */ folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
const listed = new Set(SECTIONS.flatMap(([, paths]) => paths));

function titleOf(/** @type {string} */ path) {
  const title = /^# (.+)$/m.exec(readFileSync(join(ROOT, path), 'utf8'))?.[1] ?? path;
  return title.replaceAll('`', '');
}
const items = (/** @type {readonly string[]} */ paths) =>
  paths
    .filter((path) => existsSync(join(ROOT, path)))
    .map((path) => ({ text: titleOf(path), link: `/${onSite(path).replace(/(index)?\.md$/, '')}` }));

export default defineConfig({
  title: 'Doorbuster',
  description: 'Flash sales, drops and one-time coupons that cannot oversell',
  lang: 'en',
  srcDir: ROOT,
  // Everything in this project that is no page: folders of code, packages and builds.
  srcExclude: readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !isPage(`${entry.name}/a.md`))
    .map(({ name }) => `${name}/**`),
  outDir: process.env.DOCS_SITE_OUT ?? join(ROOT, 'docs-site/dist'),
  cacheDir: join(ROOT, 'docs-site/node_modules/.vitepress'),
  ignoreDeadLinks: 'localhostLinks',
  // With clean URLs a page is found only by servers that add .html.
  cleanUrls: false,
  lastUpdated: false,
  rewrites: (id) => onSite(id),
  markdown: {
    anchor: { slugify: anchorOf },
    config(md) {
      // A link is checked by VitePress after it leads to a page, so the build fails for a dead one.
      md.core.ruler.push('links', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.type === 'link_open' ? token.attrGet('href') : null;
          if (href) token.attrSet('href', linkOnSite(env.relativePath, href));
        }
      });
      // Text is no template of Vue.
      const text = md.renderer.rules.text;
      md.renderer.rules.text = (...args) => (text?.(...args) ?? '').replaceAll('{{', '&#123;&#123;');
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: [
      ...SECTIONS.map(([text, paths]) => ({ text, items: items(paths) })),
      { text: 'More', collapsed: true, items: items(documentsIn('docs').filter((path) => !listed.has(path))) },
      { text: 'Decisions', collapsed: true, items: items(documentsIn('docs/decisions')) },
    ],
    socialLinks: [{ icon: 'github', link: 'https://github.com/doorbuster-dev/doorbuster' }],
    footer: { message: 'Apache-2.0' },
  },
});

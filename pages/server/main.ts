/** The buttons that copy what they name in `data-copies`, an id of the page. Without JavaScript they stay hidden. */
const SHOWN_MS = 2_000;

for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-copies]')) {
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener('click', async () => {
    const text = document.getElementById(String(button.dataset.copies))?.textContent ?? '';
    const isCopied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    button.textContent = isCopied ? 'Copied' : 'Copying is not allowed here';
    setTimeout(() => {
      button.textContent = label;
    }, SHOWN_MS);
  });
}

/** Calls the shopper back to the page: sound and vibration, where the browser allows them. */
export class Signals {
  #audio: AudioContext | null = null;

  /** Whether this page can make a sound now. */
  get ready(): boolean {
    return this.#audio?.state === 'running';
  }

  /** Browsers allow sound only after a click, so the button calls this. */
  unlock(): void {
    try {
      this.#audio ??= new AudioContext();
      this.#audio.resume().catch(() => {});
    } catch {
      // This device has no sound.
    }
  }

  call(): void {
    try {
      navigator.vibrate?.([200, 100, 200]);
    } catch {
      // The browser does not allow vibration.
    }
    const audio = this.#audio;
    if (audio?.state !== 'running') return;
    for (const [i, hertz] of [660, 880].entries()) {
      const tone = audio.createOscillator();
      const loudness = audio.createGain();
      const at = audio.currentTime + i * 0.25;
      tone.frequency.value = hertz;
      loudness.gain.setValueAtTime(0.2, at);
      loudness.gain.exponentialRampToValueAtTime(0.001, at + 0.24);
      tone.connect(loudness).connect(audio.destination);
      tone.start(at);
      tone.stop(at + 0.25);
    }
  }
}

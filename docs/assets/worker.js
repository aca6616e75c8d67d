// Browsers start no worker from a file. Pages that were opened from the disk run the script of their search in a
// hidden frame instead, so that it works there too.
if (location.protocol === "file:") {
  window.Worker = class {
    #waiting = [];
    #frame = document.createElement("iframe");
    #inner;

    constructor(url) {
      this.#frame.hidden = true;
      document.documentElement.append(this.#frame);
      const inner = this.#frame.contentWindow;
      inner.postMessage = (data) => this.onmessage?.({ data });
      const script = inner.document.createElement("script");
      script.onload = () => {
        this.#inner = inner;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      script.onerror = (event) => this.onerror?.(event);
      script.src = url;
      inner.document.documentElement.append(script);
    }

    postMessage(data) {
      if (this.#inner) setTimeout(() => this.#inner?.onmessage?.({ data }));
      else this.#waiting.push(data);
    }

    terminate() {
      this.#inner = undefined;
      this.#frame.remove();
    }
  };
}
